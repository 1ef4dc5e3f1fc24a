//! Data that is compressed and decompressed within the program: passive from there on, and the rest of the gradient stays right.
//!
//! The numbers have their upper bytes in common, so that a compressor copies these from one number to the next: shadow that went along would
//! be put together from several.

use derivgrind_tests::formula::{Formula, formula};

/// Defines `through_NAME`, which is a number that was compressed together with its neighbours. `$compress` packs `in` (`sizeof in` bytes)
/// into `packed` and says how many bytes it takes, `$decompress` unpacks them into `out` and says whether it has.
macro_rules! through {
    ($name:literal, $header:literal, $compress:literal, $decompress:literal) => {
        concat!(
            "#include <stdlib.h>\n#include <string.h>\n",
            $header,
            "\nstatic double through_",
            $name,
            "(double a) { double in[64], out[64]; unsigned char packed[2048]; size_t size; int i; ",
            "for (i = 0; i < 64; i++) in[i] = a * (1 + i * 1e-9); size = ",
            $compress,
            "; if (!(",
            $decompress,
            ") || memcmp(in, out, sizeof in)) abort(); return out[40]; }"
        )
    };
}

/// A formula through one of them: only the factor outside counts.
macro_rules! compressor {
    ($name:literal, $header:literal, $compress:literal, $decompress:literal) => {
        formula($name, &[1.5, 0.7], concat!("return x[0] * through_", $name, "(x[1]);"), |x| {
            vec![x[1] * (1.0 + 40.0 * 1e-9), 0.0]
        })
        .with(through!($name, $header, $compress, $decompress))
        .as_documented()
    };
}

/// Compressors that are found in a statically linked executable as well.
pub fn unmistakable() -> Vec<Formula> {
    vec![
        compressor!(
            "lz4",
            "#include <lz4.h>",
            "LZ4_compress_default((char *)in, (char *)packed, sizeof in, sizeof packed)",
            "LZ4_decompress_safe((char *)packed, (char *)out, size, sizeof out) == sizeof out"
        ),
        compressor!(
            "lz4_hc",
            "#include <lz4hc.h>",
            "LZ4_compress_HC((char *)in, (char *)packed, sizeof in, sizeof packed, 9)",
            "LZ4_decompress_safe((char *)packed, (char *)out, size, sizeof out) == sizeof out"
        ),
        compressor!(
            "zstd",
            "#include <zstd.h>",
            "ZSTD_compress(packed, sizeof packed, in, sizeof in, 3)",
            "ZSTD_decompress(out, sizeof out, packed, size) == sizeof out"
        ),
        compressor!(
            "zstd_stream",
            "#include <zstd.h>
static size_t pack_stream(void *to, size_t room, void *from, size_t size) {
    ZSTD_CCtx *context = ZSTD_createCCtx(); ZSTD_outBuffer out = {to, room, 0}; ZSTD_inBuffer in = {from, size / 2, 0};
    if (ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue) != 0 && in.pos != in.size) abort();
    in.size = size; while (ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) != 0) if (out.pos == out.size) abort();
    ZSTD_freeCCtx(context); return out.pos; }",
            "pack_stream(packed, sizeof packed, in, sizeof in)",
            "ZSTD_decompress(out, sizeof out, packed, size) == sizeof out"
        ),
        compressor!(
            "lzma",
            "#include <lzma.h>
static size_t pack_lzma(void *to, size_t room, void *from, size_t size) { size_t used = 0;
    if (lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, from, size, to, &used, room) != LZMA_OK) abort(); return used; }
static int unpack_lzma(void *to, size_t room, void *from, size_t size) { size_t in = 0, out = 0; uint64_t memory = UINT64_MAX;
    return lzma_stream_buffer_decode(&memory, 0, NULL, from, &in, size, to, &out, room) == LZMA_OK && out == room; }",
            "pack_lzma(packed, sizeof packed, in, sizeof in)",
            "unpack_lzma(out, sizeof out, packed, size)"
        ),
        compressor!(
            "brotli",
            "#include <brotli/encode.h>
#include <brotli/decode.h>
static size_t pack_brotli(void *to, size_t room, void *from, size_t size) {
    if (!BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, size, from, &room, to)) abort(); return room; }",
            "pack_brotli(packed, sizeof packed, in, sizeof in)",
            "BrotliDecoderDecompress(size, packed, &(size_t){sizeof out}, (unsigned char *)out) == BROTLI_DECODER_RESULT_SUCCESS"
        ),
        compressor!(
            "bzip2",
            "#include <bzlib.h>
static size_t pack_bzip2(void *to, unsigned room, void *from, unsigned size) {
    if (BZ2_bzBuffToBuffCompress(to, &room, from, size, 9, 0, 0) != BZ_OK) abort(); return room; }",
            "pack_bzip2(packed, sizeof packed, in, sizeof in)",
            "BZ2_bzBuffToBuffDecompress((char *)out, &(unsigned){sizeof out}, (char *)packed, size, 0, 0) == BZ_OK"
        ),
    ]
}

/// All compressors, from their shared libraries.
pub fn formulas() -> Vec<Formula> {
    let mut formulas = unmistakable();
    formulas.extend([
        compressor!(
            "deflate",
            "#include <zlib.h>
static size_t pack_zlib(void *to, uLongf room, const void *from, size_t size, int level) {
    if (compress2(to, &room, from, size, level) != Z_OK) abort(); return room; }",
            "pack_zlib(packed, sizeof packed, in, sizeof in, 9)",
            "uncompress((unsigned char *)out, &(uLongf){sizeof out}, packed, size) == Z_OK"
        ),
        compressor!(
            "stored",
            "#include <zlib.h>
static size_t pack_stored(void *to, uInt room, void *from, uInt size) { z_stream s = {0};
    if (deflateInit(&s, 0) != Z_OK) abort();
    s.next_in = from; s.avail_in = size; s.next_out = to; s.avail_out = room;
    if (deflate(&s, Z_FINISH) != Z_STREAM_END) abort(); deflateEnd(&s); return room - s.avail_out; }",
            "pack_stored(packed, sizeof packed, in, sizeof in)",
            "uncompress((unsigned char *)out, &(uLongf){sizeof out}, packed, size) == Z_OK"
        ),
        compressor!(
            "snappy",
            "#include <snappy-c.h>
static size_t pack_snappy(void *to, size_t room, void *from, size_t size) {
    if (snappy_compress(from, size, to, &room) != SNAPPY_OK) abort(); return room; }",
            "pack_snappy(packed, sizeof packed, in, sizeof in)",
            "snappy_uncompress((char *)packed, size, (char *)out, &(size_t){sizeof out}) == SNAPPY_OK"
        ),
        compressor!(
            "lzo",
            "#include <lzo/lzo1x.h>
static size_t pack_lzo(void *to, void *from, size_t size) { static lzo_align_t work[LZO1X_1_MEM_COMPRESS / sizeof(lzo_align_t) + 1]; lzo_uint used;
    if (lzo_init() != LZO_E_OK || lzo1x_1_compress(from, size, to, &used, work) != LZO_E_OK) abort(); return used; }",
            "pack_lzo(packed, in, sizeof in)",
            "lzo1x_decompress_safe(packed, size, (unsigned char *)out, &(lzo_uint){sizeof out}, NULL) == LZO_E_OK"
        ),
    ]);
    formulas
}
