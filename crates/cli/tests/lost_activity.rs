//! Activity that is lost is told, with its source line, and is an error with `--strict`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{DERIVGRIND, Ended, ended};

/// Line 5 has an operation without a derivative; line 8 one that is executed twice as often.
const HASHED: &str = r#"#include <derivgrind.h>
#include <stdio.h>
#include <string.h>
static double mix(double a, unsigned long factor) {
  unsigned long b; memcpy(&b, &a, 8); b *= factor; memcpy(&a, &b, 8); return a;
}
static double stir(double a, unsigned long factor) {
  unsigned long b; memcpy(&b, &a, 8); b *= factor; memcpy(&a, &b, 8); return a;
}
int main(int argc, char **argv) {
  double x = 1.5, y;
  unsigned long factor = (unsigned long)argc + 1;
  DG_INPUTF(x);
  y = mix(x * x, factor) + stir(x, factor) * stir(2 * x, factor);
  DG_OUTPUTF(y);
  printf("%g\n", x);
  return argc > 2;
}
"#;

/// Nothing is lost; eight bytes of active data and eight others go to the standard output.
const WRITTEN: &str = r#"#include <derivgrind.h>
#include <unistd.h>
int main(void) {
  double x[2] = {1.5, 2.5}, y;
  DG_INPUTF(x[1]);
  y = x[0] * x[1];
  if (write(1, x, sizeof x) != sizeof x) return 2;
  DG_OUTPUTF(y);
  return 0;
}
"#;

struct Compiled {
    directory: tempfile::TempDir,
}

impl Compiled {
    fn new(source: &str, options: &[&str]) -> Compiled {
        Compiled::with_libraries(source, options, &[])
    }

    fn with_libraries(source: &str, options: &[&str], libraries: &[&str]) -> Compiled {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("p.c"), source).unwrap();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/include");
        let mut command = Command::new("cc");
        command.current_dir(directory.path()).arg("-I").arg(include).args(options).args(["-o", "p", "p.c"]);
        command.args(libraries);
        assert!(command.status().unwrap().success());
        Compiled { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command line of ours; `P` is the program, `D` a directory for a recording.
    fn derivgrind(&self, line: &str) -> Ended {
        let word = |word: &str| match word {
            "P" => self.path("p").display().to_string(),
            "D" => self.path("tape").display().to_string(),
            _ => word.replace("=D", &format!("={}", self.path("tape").display())),
        };
        ended(Command::new(DERIVGRIND).args(line.split(' ').map(word)).output().unwrap())
    }

    fn line(&self, line: u32) -> String {
        format!("at {}:{line}\n", self.path("p.c").display())
    }
}

#[test]
fn summary_names_count_instruction_function_and_line() {
    let program = Compiled::new(HASHED, &["-g", "-O1", "-fno-inline"]);
    for line in ["record D -- P x", "--record=D P x"] {
        let ended = program.derivgrind(line);
        ended.says(0, &["active values met 3 operations", "imul", "in mix", "in stir"]);
        let places: Vec<&str> = ended.stderr.split_inclusive('\n').skip(1).collect();
        assert_eq!(places.len(), 2, "{ended:?}");
        assert!(places[0].starts_with("  2 times: ") && places[0].ends_with(&program.line(8)), "{ended:?}");
        assert!(places[1].starts_with("  1 time: ") && places[1].ends_with(&program.line(5)), "{ended:?}");
    }
    assert_eq!(program.derivgrind("--quiet record D -- P x").stderr, "");
    assert_eq!(program.derivgrind("record D -- P x x").code, Some(1), "the program's own exit code");
}

#[test]
fn without_debug_information_functions_and_offsets_are_named() {
    let program = Compiled::new(HASHED, &["-O1", "-fno-inline"]);
    program.derivgrind("record D -- P x").says(0, &["2 times: imul", "in stir of p (file offset 0x"]);
    let stripped = Compiled::new(HASHED, &["-O1", "-fno-inline", "-s"]);
    stripped.derivgrind("record D -- P x").says(0, &["imul", &format!("of {}\n", stripped.path("p").display())]);
}

#[test]
fn a_loss_is_an_error_if_that_is_asked_for() {
    let program = Compiled::new(HASHED, &["-g", "-O1", "-fno-inline"]);
    for line in [
        "record --strict D -- P x",
        "--quiet record --strict D -- P x",
        "--strict --record=D P x",
        "grad --strict -- P x",
        "grad --strict --mode=forward -- P x",
        "--quiet grad --strict --mode=forward -- P x",
    ] {
        let ended = program.derivgrind(line);
        ended.says(3, &["active values met 3 operations", &program.line(8)]);
    }
    let quiet = program.derivgrind("grad --strict -- P x");
    assert!(quiet.stderr.contains("the C library took active values apart"), "{quiet:?}");
    // The derivative is wrong, and that is worse.
    let checked = program.derivgrind("check --strict -- P x");
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.stderr.contains(&program.line(8)) && checked.stderr.contains("1 DIFFER"), "{checked:?}");
    assert_eq!(program.derivgrind("record --strict D -- P x x").code, Some(1), "the program's own exit code");
}

#[test]
fn forward_mode_tells_of_losses_for_each_run() {
    const SECOND: &str = r#"#include <derivgrind.h>
#include <string.h>
int main(void) {
  double x = 1.5, y = 2.5, z; unsigned long b; volatile unsigned long bits = 3UL << 40; volatile double rounded = 0x1.8p52;
  DG_INPUTF(x); DG_INPUTF(y);
  rounded += y; // It has the same dot value.
  memcpy(&b, &y, 8); b ^= bits; memcpy(&z, &b, 8);
  z = z * 0 + x;
  DG_OUTPUTF(z);
  return 0;
}
"#;
    let program = Compiled::new(SECOND, &["-O1"]);
    program
        .derivgrind("grad --mode=forward --directions=1 -- P")
        .says(0, &["in the run for inputs from 2 on, active values met 1 operation"]);
    program.derivgrind("grad --mode=forward -- P").says(0, &["active values met 1 operation"]);
    assert_eq!(program.derivgrind("grad --strict --mode=forward -- P").code, Some(3));
    program.derivgrind("check --strict -- P").says(3, &["active values met 1 operation"]);
}

/// A number that loses some of its bytes has no index any more, wherever it goes then; nothing of its derivative is attributed to another variable.
#[test]
fn numbers_in_pieces_are_told() {
    const CUT: &str = r#"#include <derivgrind.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
static float brain_float(float a) {
  uint32_t bits; volatile uint16_t upper;
  memcpy(&bits, &a, 4); upper = bits >> 16; bits = (uint32_t)upper << 16; memcpy(&a, &bits, 4);
  return a;
}
static float other_mantissa(float a) {
  volatile union { float number; uint8_t bytes[4]; } both = {a}; both.bytes[0] ^= 0x80;
  return both.number;
}
static double upper_half(double a) {
  volatile union { double number; uint32_t words[2]; } both = {a}; both.words[0] = 0;
  return both.number;
}
static double other_highest(double a) {
  volatile union { double number; uint8_t bytes[8]; } both = {a}; both.bytes[7] = HIGHEST;
  return both.number;
}
static float other_highest_narrow(float a) {
  volatile union { float number; uint8_t bytes[4]; } both = {a}; both.bytes[3] = HIGHEST;
  return both.number;
}
static double with_byte(double a, int at, int value) {
  volatile union { double number; uint8_t bytes[8]; } both = {a}; both.bytes[at] = value;
  return both.number;
}
static float with_byte_narrow(float a, int at, int value) {
  volatile union { float number; uint8_t bytes[4]; } both = {a}; both.bytes[at] = value;
  return both.number;
}
static double with_pair(double a) {
  volatile union { double number; uint16_t pairs[4]; } both = {a}; both.pairs[1] = 0x1234;
  return both.number;
}
static double packed(double a) {
  volatile struct __attribute__((packed)) { uint8_t first; double number; } s = {0, a}; ((volatile uint8_t *)&s)[1] = 9;
  return s.number;
}
static double in_register(double a) {
  __asm__("movq %0, %%rax\n\tmovb $9, %%al\n\tmovq %%rax, %0" : "+x"(a) : : "rax");
  return a;
}
int main(void) {
  volatile float x = 1.2f; float y, sum = 0; volatile double z = 1.1; double late; int i;
  DG_INPUTF(x); DG_INPUTF(z);
  for (i = 0; i < 70000; i++) sum += x;
  late = z * 1.5 * 1.5;
  y = WHAT;
  DG_OUTPUTF(y);
  return 0;
}
"#;
    for what in [
        "brain_float(sum) * 2",
        "1 / brain_float(sum)",
        "sinf(brain_float(sum))",
        "(double)brain_float(sum) * 2",
        "brain_float(sum)",
        "other_mantissa(sum)",
        "other_mantissa(sum) * 2",
        "upper_half(z)",
        "(upper_half(z) * upper_half(z))",
        "upper_half(z) * 2",
        "sqrt(upper_half(z))",
        "exp(upper_half(z))",
        "other_highest(z)",
        "other_highest(z) * 2",
        "2 - other_highest(z)",
        "(other_highest(z) * other_highest(z))",
        "exp(other_highest(z))",
        "other_highest_narrow(x) * 2",
        "with_byte(late, 0, 0x11)",
        "with_byte(late, 2, (int)z) * (2 + (sum > 1e30f))",
        "with_byte_narrow(sum, 0, 0x11)",
        "with_byte_narrow(sum, 1, (int)z) * 2",
        "with_pair(late) * (2 + (sum > 1e30f))",
        "packed(late)",
        "in_register(late)",
    ] {
        for level in ["-O0", "-O2"] {
            // Over the highest byte, what makes a NaN of the number.
            let source = CUT.replace("WHAT", what).replace("HIGHEST", "0x7f");
            let program = Compiled::with_libraries(&source, &[level], &["-lm"]);
            let ended = program.derivgrind("grad --strict --mode=record -- P");
            assert_eq!(ended.code, Some(3), "{what} {level}: {ended:?}");
            let row = |input: &str| {
                let line = ended.stdout.lines().rev().find(|line| line.trim_start().starts_with(input));
                line.and_then(|line| line.split_whitespace().last()).map(str::to_owned)
            };
            assert_eq!([row("1 "), row("2 ")], [Some("0.0".into()), Some("0.0".into())], "{what} {level}: {ended:?}");
        }
    }
}

/// Bits of sign and exponent that are replaced together with some of the mantissa, which forward mode understands, or taken out for good.
#[test]
fn upper_bits_that_make_no_multiple_are_told() {
    const CUT: &str = r#"#include <derivgrind.h>
#include <stdint.h>
union both { double number; uint64_t bits; uint16_t pairs[4]; };
static __attribute__((noinline)) double with_pair(double a) {
  union both both = {a}; both.pairs[3] = 0x4000; return both.number;
}
static __attribute__((noinline)) double masked(double a) {
  union both both = {a}; both.bits &= 0x0007ffffffffffff; return both.number;
}
int main(void) {
  volatile double x = 3.06; double y;
  DG_INPUTF(x);
  y = WHAT(x * 1.5);
  DG_OUTPUTF(y);
  return 0;
}
"#;
    for level in ["-O0", "-O2"] {
        let cases = [("with_pair", "record", None), ("with_pair", "forward", Some("0.75"))];
        for (what, mode, derivative) in
            cases.into_iter().chain(["record", "forward"].map(|mode| ("masked", mode, None)))
        {
            let program = Compiled::with_libraries(&CUT.replace("WHAT", what), &[level], &[]);
            let ended = program.derivgrind(&format!("grad --strict --mode={mode} -- P"));
            assert_eq!(ended.code, Some(if derivative.is_some() { 0 } else { 3 }), "{what} {level} {mode}: {ended:?}");
            assert!(derivative.is_none_or(|derivative| ended.stdout.trim_end().ends_with(derivative)), "{ended:?}");
        }
    }
}

/// A significand that is moved by itself: where it is loaded, its place is known in the same basic block only.
#[test]
fn significands_without_their_exponent_are_told() {
    const MOVED: &str = r#"#include <derivgrind.h>
static __attribute__((noinline)) long double moved(long double a) {
  long double b = 0;
  __asm__ volatile("mov %1, %%rax; mov %%rax, %0; movw $0xc002, 8+%0; BETWEEN" : "+m"(b) : "m"(a) : "rax");
  return b;
}
int main(void) {
  volatile long double x = 3.06L; long double y;
  DG_INPUTF(x);
  y = moved(x * 1.5L);
  DG_OUTPUTF(y);
  return 0;
}
"#;
    for (between, derivative) in [("", Some("-3.0")), ("jmp 1f; 1:", None)] {
        let program = Compiled::with_libraries(&MOVED.replace("BETWEEN", between), &["-O2"], &[]);
        let ended = program.derivgrind("grad --strict --mode=forward -- P");
        assert_eq!(ended.code, Some(if derivative.is_some() { 0 } else { 3 }), "{between:?}: {ended:?}");
        assert!(derivative.is_none_or(|derivative| ended.stdout.trim_end().ends_with(derivative)), "{ended:?}");
    }
}

/// Vector exponential functions bring a rounded number to the place of the exponent: by a shift, after other operations on the bits of the sum.
#[test]
fn a_rounded_number_as_exponent_is_no_loss() {
    const SCALED: &str = r#"#include <derivgrind.h>
typedef NUMBER pair __attribute__((vector_size(16)));
typedef UNSIGNED bits __attribute__((vector_size(16)));
static __attribute__((noinline)) pair scaled(pair x) {
  const pair shift = (pair){0} + (SHIFT + BIAS);
  pair sum = x + shift, rest = x - (sum - shift);
  bits whole = (bits)sum CLEARED;
  return (pair)((whole << PLACES) & EXPONENT) * (1 + rest * rest);
}
int main(void) {
  NUMBER x = 1.31, y = -0.7, sum; pair z;
  DG_INPUTF(x); DG_INPUTF(y);
  z = scaled((pair){x, y});
  sum = z[0] + z[1];
  DG_OUTPUTF(sum);
  return 0;
}
"#;
    let wide = ["double", "unsigned long", "0x1.8p48", "1023", "48", "0x7ff0000000000000"];
    let narrow = ["float", "unsigned", "0x1.8p19f", "127", "19", "0x7f800000"];
    let numbers = [(wide, 1e-12), (narrow, 1e-6)];
    for (number, cleared) in numbers.into_iter().flat_map(|number| [(number, ""), (number, "^ ((bits)sum & 15)")]) {
        for level in ["-O0", "-O2", "-O3 -march=native"] {
            let options: Vec<&str> = level.split(' ').collect();
            let (words, tolerance) = number;
            let source = ["NUMBER", "UNSIGNED", "SHIFT", "BIAS", "PLACES", "EXPONENT"]
                .into_iter()
                .zip(words)
                .fold(SCALED.replace("CLEARED", cleared), |source, (name, word)| source.replace(name, word));
            let program = Compiled::new(&source, &options);
            for mode in ["record", "forward"] {
                let ended = program.derivgrind(&format!("grad --strict --mode={mode} -- P"));
                let found: Vec<f64> = ended
                    .stdout
                    .lines()
                    .rev()
                    .take(2)
                    .map(|line| line.split_whitespace().last().unwrap().parse().unwrap())
                    .collect();
                let right = (found[1] + 0.01).abs() < tolerance && (found[0] + 0.0125).abs() < tolerance;
                assert!(ended.code == Some(0) && right, "{} {cleared} {level} {mode}: {ended:?}", words[0]);
            }
        }
    }
}

/// Fast logarithms convert the bits of a number to a real number, or its mantissa; the bits of a rounded number may be converted.
#[test]
fn bits_that_become_a_number_are_told() {
    const CONVERTED: &str = r#"#include <derivgrind.h>
#include <stdint.h>
#include <string.h>
#define N 8
static __attribute__((noinline)) void convert(const NUMBER *x, REAL *y) {
  for (int i = 0; i < N; i++) { INTEGER bits; NUMBER sum = x[i] + SHIFT; memcpy(&bits, &sum, sizeof bits); y[i] = (REAL)(BITS); }
}
int main(void) {
  NUMBER x[N]; REAL y[N], sum = 0;
  for (int i = 0; i < N; i++) x[i] = 1.3 + i;
  DG_INPUT_ARRAY(x, N);
  convert(x, y);
  for (int i = 0; i < N; i++) sum += y[i];
  DG_OUTPUTF(sum);
  return 0;
}
"#;
    let double = ["double", "int64_t"];
    let float = ["float", "int32_t"];
    let cases = [
        (double, "double", "0", "bits", 3),
        (double, "double", "0", "bits & 0xfffffffffffff", 3),
        (double, "float", "0", "bits", 3),
        (double, "long double", "0", "bits", 3),
        (double, "double", "0", "bits >> 52", 0),
        (double, "double", "0x1.8p52", "(int32_t)bits", 0),
        (double, "double", "0x1.8p52", "bits - 0x4338000000000000", 0),
        (float, "float", "0", "bits", 3),
        (float, "double", "0", "bits & 0x7fffff", 3),
        (float, "float", "0", "bits >> 23", 0),
        (float, "float", "0x1.8p23f", "bits - 0x4b400000", 0),
    ];
    for (([number, integer], real, shift, bits, code), level) in
        cases.into_iter().flat_map(|case| ["-O0", "-O3", "-O3 -march=native"].map(|level| (case, level)))
    {
        let source = [("NUMBER", number), ("INTEGER", integer), ("REAL", real), ("SHIFT", shift), ("BITS", bits)]
            .into_iter()
            .fold(CONVERTED.to_owned(), |source, (name, word)| source.replace(name, word));
        let program = Compiled::new(&source, &level.split(' ').collect::<Vec<&str>>());
        for mode in ["record", "forward"] {
            let ended = program.derivgrind(&format!("grad --strict --mode={mode} -- P"));
            assert_eq!(ended.code, Some(code), "{number} {real} {shift} {bits} {level} {mode}: {ended:?}");
        }
    }
}

/// Integer operations on a sum with a rounding constant are no loss; in the next recording its index belongs to another variable.
#[test]
fn sums_of_one_recording_are_not_those_of_the_next() {
    const TWICE: &str = r#"#include <derivgrind.h>
#include <stdio.h>
#include <string.h>
static void request(unsigned long number, const char *first, unsigned long second) {
  derivgrind_request_(0, number, DERIVGRIND_ADDRESS_(first), second, 0, 0);
}
int main(int argc, char **argv) {
  volatile unsigned long mask = 5; volatile double shift = 0x1.8p52;
  for (int recording = 0; recording < 2; recording++) {
    char path[4096], text[200] = "";
    volatile double x = 1.5, y; double z; unsigned long bits;
    snprintf(path, sizeof path, "%s%d", argv[argc - 1], recording);
    request(DERIVGRIND_REQUEST_START_RECORDING, path, 0);
    DG_INPUTF(x);
    y = recording == 0 ? x + shift : x * x;
    z = y; memcpy(&bits, &z, 8); bits ^= mask; memcpy(&z, &bits, 8); y = z;
    DG_OUTPUTF(y);
    request(DERIVGRIND_REQUEST_FINISH_RECORDING, text, sizeof text);
    printf("%d: %s\n", recording, text);
  }
  return 0;
}
"#;
    let program = Compiled::new(TWICE, &["-O1"]);
    let ended = program.derivgrind(&format!("record D -- P {}", program.path("recording").display()));
    assert!(ended.stdout.starts_with("0: \n1: active values met 1 operation"), "{ended:?}");
}

/// No instruction tells that bytes of several numbers come together: the call is counted.
#[test]
fn compressed_data_is_told() {
    const PACKED: &str = r#"#include <derivgrind.h>
#include <lz4.h>
#include <string.h>
int main(void) {
  double x = 1.5, y, numbers[8] = {0}, other[8] = {0}; char packed[256]; int size;
  DG_INPUTF(x);
  LZ4_compress_default((char *)other, packed, sizeof other, sizeof packed);
  numbers[3] = x;
  size = LZ4_compress_default((char *)numbers, packed, sizeof numbers, sizeof packed);
  if (LZ4_decompress_safe(packed, (char *)numbers, size, sizeof numbers) < 0 || numbers[3] != x) return 2;
  y = numbers[3];
  DG_OUTPUTF(y);
  return 0;
}
"#;
    for (options, place) in [(["-O1", "-llz4"], "in LZ4_compress_default of liblz4"), (["-static", "-llz4"], "of p ")] {
        // Libraries stand behind the source.
        let program = Compiled::with_libraries(PACKED, &options[..1], &options[1..]);
        for line in ["record D -- P", "grad --mode=forward -- P"] {
            program.derivgrind(line).says(0, &["active values met 1 operation", "1 time: call that compresses", place]);
        }
        assert_eq!(program.derivgrind("record --strict D -- P").code, Some(3));
    }
}

#[test]
fn active_data_that_leaves_the_program_is_told() {
    let program = Compiled::new(WRITTEN, &["-O1"]);
    for line in ["record D -- P", "record --strict D -- P"] {
        let mut command = Command::new(DERIVGRIND);
        command.args(line.split(' ').map(|word| match word {
            "P" => program.path("p"),
            "D" => program.path("tape"),
            _ => word.into(),
        }));
        let mut output = command.output().unwrap();
        assert_eq!(output.stdout.len(), 16);
        output.stdout.clear();
        ended(output).says(0, &["8 bytes of active values"]);
    }
}
