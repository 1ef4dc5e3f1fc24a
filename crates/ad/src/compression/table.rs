//! Which functions compress, and where they find their input. One line a function.

/// A function that compresses.
#[derive(Clone, Copy, Debug)]
pub struct Compressor {
    /// Its symbol.
    pub name: &'static str,
    /// What it reads.
    pub input: Input,
    /// Its name is so much its library's own that a function of this name in an executable is a statically linked copy.
    pub unmistakable: bool,
}

/// Where a function finds its input. Arguments of class INTEGER are counted from 0.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// In two arguments.
    Arguments {
        /// The argument that points to the data.
        start: usize,
        /// Where their length is.
        length: Length,
    },
    /// In a structure that an argument points to, at these offsets in bytes (`z_stream`, `lzma_stream`).
    Stream {
        /// The argument that points to the structure.
        at: usize,
        /// Offset of the pointer to the data.
        start: usize,
        /// Offset of their length.
        length: Length,
    },
    /// In a structure of pointer, size and position of the first byte that is not consumed (`ZSTD_inBuffer`), which an argument points to.
    Position {
        /// The argument that points to the structure.
        at: usize,
    },
    /// In variables that two arguments point to (`available_in` and `next_in` of Brotli).
    Pointers {
        /// The argument that points to the pointer to the data.
        start: usize,
        /// The argument that points to their length.
        length: usize,
    },
}

/// What a length looks like; the number is that of the argument, or an offset in the structure.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// `int`.
    Int(usize),
    /// `unsigned int`.
    UnsignedInt(usize),
    /// `size_t`.
    Size(usize),
    /// A pointer to an `int`.
    IntAt(usize),
}

const fn of(name: &'static str, input: Input) -> Compressor {
    Compressor { name, input, unmistakable: true }
}

const fn arguments(name: &'static str, start: usize, length: Length) -> Compressor {
    of(name, Input::Arguments { start, length })
}

const fn zlib(name: &'static str, input: Input) -> Compressor {
    Compressor { name, input, unmistakable: false }
}

use Length::{Int, IntAt, Size, UnsignedInt};

/// All of them. Signatures are those of the headers of the libraries: zlib 1.2, lz4 1.9, zstd 1.5, xz 5.4, Brotli 1.0, Snappy 1.1, LZO 2.10, bzip2 1.0. (bzip2
/// moves no bytes as they are; it stands here so that its calls are told as such.)
pub const COMPRESSORS: &[Compressor] = &[
    zlib("deflate", Input::Stream { at: 0, start: 0, length: UnsignedInt(8) }),
    zlib("compress", Input::Arguments { start: 2, length: Size(3) }),
    zlib("compress2", Input::Arguments { start: 2, length: Size(3) }),
    arguments("LZ4_compress", 0, Int(2)),
    arguments("LZ4_compress_default", 0, Int(2)),
    arguments("LZ4_compress_fast", 0, Int(2)),
    arguments("LZ4_compress_HC", 0, Int(2)),
    arguments("LZ4_compress_destSize", 0, IntAt(2)),
    arguments("LZ4_compress_fast_extState", 1, Int(3)),
    arguments("LZ4_compress_HC_extStateHC", 1, Int(3)),
    arguments("LZ4_compress_fast_continue", 1, Int(3)),
    arguments("LZ4_compress_HC_continue", 1, Int(3)),
    arguments("LZ4_compress_HC_destSize", 1, IntAt(3)),
    arguments("LZ4_compress_HC_continue_destSize", 1, IntAt(3)),
    arguments("LZ4_compress_limitedOutput", 0, Int(2)),
    arguments("LZ4_compressHC", 0, Int(2)),
    arguments("LZ4_compressHC2", 0, Int(2)),
    arguments("LZ4_compressHC_limitedOutput", 0, Int(2)),
    arguments("LZ4_compressHC2_limitedOutput", 0, Int(2)),
    arguments("LZ4_compress_withState", 1, Int(3)),
    arguments("LZ4_compress_limitedOutput_withState", 1, Int(3)),
    arguments("LZ4_compressHC_withStateHC", 1, Int(3)),
    arguments("LZ4_compressHC2_withStateHC", 1, Int(3)),
    arguments("LZ4_compressHC_limitedOutput_withStateHC", 1, Int(3)),
    arguments("LZ4_compressHC2_limitedOutput_withStateHC", 1, Int(3)),
    arguments("LZ4_compress_continue", 1, Int(3)),
    arguments("LZ4_compress_limitedOutput_continue", 1, Int(3)),
    arguments("LZ4_compressHC_continue", 1, Int(3)),
    arguments("LZ4_compressHC2_continue", 1, Int(3)),
    arguments("LZ4_compressHC_limitedOutput_continue", 1, Int(3)),
    arguments("LZ4_compressHC2_limitedOutput_continue", 1, Int(3)),
    arguments("LZ4F_compressFrame", 2, Size(3)),
    arguments("LZ4F_compressFrame_usingCDict", 3, Size(4)),
    arguments("LZ4F_compressUpdate", 3, Size(4)),
    arguments("LZ4F_uncompressedUpdate", 3, Size(4)),
    arguments("ZSTD_compress", 2, Size(3)),
    arguments("ZSTD_compressCCtx", 3, Size(4)),
    arguments("ZSTD_compress2", 3, Size(4)),
    arguments("ZSTD_compress_usingDict", 3, Size(4)),
    arguments("ZSTD_compress_usingCDict", 3, Size(4)),
    arguments("ZSTD_compress_usingCDict_advanced", 3, Size(4)),
    arguments("ZSTD_compress_advanced", 3, Size(4)),
    arguments("ZSTD_compressBlock", 3, Size(4)),
    arguments("ZSTD_compressContinue", 3, Size(4)),
    arguments("ZSTD_compressEnd", 3, Size(4)),
    arguments("ZSTD_compressStream2_simpleArgs", 4, Size(5)),
    of("ZSTD_compressStream", Input::Position { at: 2 }),
    of("ZSTD_compressStream2", Input::Position { at: 2 }),
    of("lzma_code", Input::Stream { at: 0, start: 0, length: Size(8) }),
    arguments("lzma_easy_buffer_encode", 3, Size(4)),
    arguments("lzma_stream_buffer_encode", 3, Size(4)),
    arguments("lzma_raw_buffer_encode", 2, Size(3)),
    arguments("lzma_block_buffer_encode", 2, Size(3)),
    arguments("lzma_block_uncomp_encode", 1, Size(2)),
    arguments("BrotliEncoderCompress", 4, Size(3)),
    of("BrotliEncoderCompressStream", Input::Pointers { start: 3, length: 2 }),
    arguments("snappy_compress", 0, Size(1)),
    // snappy::RawCompress, and what all its interfaces call: snappy::internal::CompressFragment.
    arguments("_ZN6snappy11RawCompressEPKcmPcPm", 0, Size(1)),
    arguments("_ZN6snappy8internal16CompressFragmentEPKcmPcPti", 0, Size(1)),
    arguments("lzo1x_1_compress", 0, Size(1)),
    arguments("lzo1x_1_15_compress", 0, Size(1)),
    arguments("lzo1x_999_compress", 0, Size(1)),
    arguments("lzo1x_999_compress_level", 0, Size(1)),
    arguments("BZ2_bzBuffToBuffCompress", 2, UnsignedInt(3)),
    of("BZ2_bzCompress", Input::Stream { at: 0, start: 0, length: UnsignedInt(8) }),
];
