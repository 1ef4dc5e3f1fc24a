//! Programs that compress, pack, encrypt and digest.

use crate::Case;

use super::{large_file, shell, small_file, small_file_and, tree};

pub fn cases() -> Vec<Case> {
    [packers(), ciphers()].into_iter().flatten().collect()
}

fn packers() -> Vec<Case> {
    vec![
        Case::new("xz", &["xz", "-6", "lines"]).prepared(small_file),
        Case::new("xz-threads", &["xz", "-1", "-T2", "lines"]).prepared(large_file),
        Case::new("xz-decompress", &["xz", "-d", "lines.xz"]).prepared(small_file_and("xz lines")),
        Case::new("bzip2", &["bzip2", "lines"]).prepared(small_file),
        Case::new("bzip2-decompress", &["bzip2", "-d", "lines.bz2"]).prepared(small_file_and("bzip2 lines")),
        Case::new("zstd", &["zstd", "-q", "-19", "lines"]).prepared(small_file),
        Case::new("zstd-decompress", &["zstd", "-q", "-d", "lines.zst"]).prepared(small_file_and("zstd -q --rm lines")),
        Case::new("lz4", &["lz4", "-q", "-9", "lines"]).prepared(small_file),
        Case::new("zip", &["zip", "-q", "-X", "-r", "out.zip", "a", "c"]).prepared(tree),
        Case::new("unzip", &["unzip", "-q", "out.zip", "-d", "out"])
            .prepared(small_file_and("zip -q -X out.zip lines")),
        Case::new("cpio", &["cpio", "-o", "--reproducible", "-H", "newc", "--quiet"])
            .prepared(small_file)
            .with_input("lines\n"),
        Case::new("tar-list", &["tar", "-tvf", "out.tar"]).prepared(small_file_and("tar --mtime=@7 -cf out.tar lines")),
        Case::new("tar-extract", &["tar", "-xf", "out.tar", "-C", "out"])
            .prepared(small_file_and("mkdir out && tar -cf out.tar lines && rm lines")),
        Case::new("ar", &["ar", "rcD", "library.a", "lines"]).prepared(small_file),
    ]
}

fn ciphers() -> Vec<Case> {
    let encrypt = |name: &str, cipher: &str| {
        let words = ["openssl", "enc", cipher, "-pbkdf2", "-nosalt", "-k", "secret", "-in", "lines", "-out", "out"];
        Case::new(name, &words).prepared(small_file)
    };
    let digest = |name: &str, digest: &str| Case::new(name, &["openssl", "dgst", digest, "lines"]).prepared(small_file);
    let speed = |name: &str, what: &str| {
        // Of a second on a busy machine the process may not get any: it is the elapsed time that counts.
        Case::new(name, &["openssl", "speed", "-elapsed", "-seconds", "1", "-bytes", "4096", "-evp", what])
            // The report names the processor's features, of which the tool hides some.
            .with_environment(&[("OPENSSL_ia32cap", "0:0")])
            .masking_numbers()
    };
    vec![
        encrypt("openssl-aes-256-cbc", "-aes-256-cbc"),
        encrypt("openssl-chacha20", "-chacha20"),
        digest("openssl-sha3-512", "-sha3-512"),
        digest("openssl-blake2b", "-blake2b512"),
        speed("openssl-speed-sha256", "sha256"),
        speed("openssl-speed-aes", "aes-128-gcm"),
        Case::new("openssl-prime", &["openssl", "prime", "18446744073709551557", "1000000007", "91"]),
        Case::new("openssl-asn1", &["openssl", "asn1parse", "-in", "key.pem"])
            .prepared(shell(
                "printf '%s\\n' '-----BEGIN PUBLIC KEY-----' 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=' '-----END PUBLIC KEY-----' > key.pem",
            )),
        Case::new("b2sum", &["b2sum", "lines"]).prepared(large_file),
        Case::new("sha1sum-check", &["sha1sum", "-c", "sums"]).prepared(small_file_and("sha1sum lines > sums")),
        Case::new("cksum", &["cksum", "lines"]).prepared(large_file),
        Case::new("sum", &["sum", "-s", "lines"]).prepared(small_file),
    ]
}
