//! Data that is compressed and decompressed within the program: passive where a compressor encodes it, and the rest of the gradient stays right.

use derivgrind_tests::formula::{Formula, formula};

const ZLIB: &str = "#include <zlib.h>
static double through_zlib(double a) { double in[64], out[64]; unsigned char packed[2048]; uLongf size = sizeof packed, back = sizeof out; int i; for (i = 0; i < 64; i++) in[i] = a * (i % 5);
    if (compress2(packed, &size, (const Bytef *)in, sizeof in, 9) != Z_OK || uncompress((Bytef *)out, &back, packed, size) != Z_OK || back != sizeof in) abort(); return out[1]; }";

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("deflate", &[1.5, 0.7], "return x[0] * through_zlib(x[1]);", |x| vec![x[1], 0.0])
            .with(ZLIB)
            .as_documented(),
    ]
}
