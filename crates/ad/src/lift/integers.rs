//! Integer arithmetic that is no real operation in disguise: of narrow elements, products, counts, saturation.
//!
//! If something active goes in, derivative information is lost; so it is reported. What reads the state of the system is passive.

use iced_x86::Mnemonic::{self, *};

use super::Class;

macro_rules! lossy {
    ($($mnemonic:ident)+) => { &[$(($mnemonic, Class::Lossy)),+] };
}

/// Results that are integers, computed from what could have been a real number.
#[rustfmt::skip]
pub(super) const TABLE: &[(Mnemonic, Class)] = lossy! {
    // General registers.
    Mul Imul Div Idiv Mulx Bsf Bsr Lzcnt Tzcnt Popcnt
    Adcx Adox Bextr Blsi Blsmsk Blsr Pdep Pext Crc32
    // Packed integers.
    Pabsb Vpabsb Pabsw Vpabsw Pabsd Vpabsd Packssdw Vpackssdw
    Packsswb Vpacksswb Packuswb Vpackuswb Packusdw Vpackusdw Paddb Vpaddb
    Paddw Vpaddw Paddsb Vpaddsb Paddsw Vpaddsw Paddusb Vpaddusb
    Paddusw Vpaddusw Psubsb Vpsubsb Psubsw Vpsubsw Psubusb Vpsubusb
    Psubusw Vpsubusw Pavgb Vpavgb Pavgw Vpavgw Phaddw Vphaddw
    Phaddd Vphaddd Phaddsw Vphaddsw Phsubw Vphsubw Phsubd Vphsubd
    Phsubsw Vphsubsw Pmaddubsw Vpmaddubsw Pmaddwd Vpmaddwd Pmaxsb Vpmaxsb
    Pmaxsw Vpmaxsw Pmaxub Vpmaxub Pmaxuw Vpmaxuw Pminsb Vpminsb
    Pminsw Vpminsw Pminub Vpminub Pminuw Vpminuw Pmulhrsw Vpmulhrsw Pmulhuw Vpmulhuw
    Pmulhw Vpmulhw Pmullw Vpmullw Pmulld Vpmulld Pmuldq Vpmuldq
    Pmuludq Vpmuludq Psadbw Vpsadbw Mpsadbw Vmpsadbw Phminposuw Vphminposuw
    Psignb Vpsignb Psignw Vpsignw Psignd Vpsignd
    // With AVX-512.
    Vpabsq Vpmullq Vdbpsadbw Vpconflictd Vpconflictq Vplzcntd Vplzcntq Vpsllvw
    Vpsravw Vpsrlvw Vpmovsdb Vpmovsdw Vpmovsqb Vpmovsqd Vpmovsqw Vpmovswb
    Vpmovusdb Vpmovusdw Vpmovusqb Vpmovusqd Vpmovusqw Vpmovuswb Vpopcntb Vpopcntw
    Vpopcntd Vpopcntq
};

/// Results that do not depend on data.
#[rustfmt::skip]
pub(super) const SYSTEM: &[(Mnemonic, Class)] = &[
    (In, Class::Overwrite), (Lahf, Class::Overwrite), (Lar, Class::Overwrite), (Lsl, Class::Overwrite), (Str, Class::Overwrite),
    (Sgdt, Class::Overwrite), (Sidt, Class::Overwrite), (Sldt, Class::Overwrite), (Smsw, Class::Overwrite),
    (Lfs, Class::Overwrite), (Lgs, Class::Overwrite), (Lss, Class::Overwrite),
    (Stmxcsr, Class::Overwrite), (Vstmxcsr, Class::Overwrite), (Xgetbv, Class::Overwrite), (Cpuid, Class::Overwrite),
    (Rdtsc, Class::Overwrite), (Rdtscp, Class::Overwrite), (Rdrand, Class::Overwrite), (Rdseed, Class::Overwrite), (Rdpid, Class::Overwrite),
    (Rdfsbase, Class::Overwrite), (Rdgsbase, Class::Overwrite), (Rdpkru, Class::Overwrite), (Rdpmc, Class::Overwrite),
];
