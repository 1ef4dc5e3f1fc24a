//! Counts what is not differentiated while the program runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use derivgrind_engine::memory::{self, user};
use iced_x86::{Decoder, DecoderOptions, Formatter as _, IntelFormatter};

/// The file that code comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Origin {
    /// An executable or library.
    pub path: PathBuf,
    /// Offset of the instruction in it.
    pub offset: u64,
}

impl Origin {
    fn of(address: u64) -> Option<Origin> {
        match memory::mapping_at(address)? {
            memory::Mapping { start, kind: memory::Kind::File { origin, offset }, .. } => {
                Some(Origin { path: origin.path.to_path_buf(), offset: address - start + offset })
            }
            _ => None,
        }
    }

    /// Whether this is the C library itself. It does no real arithmetic beyond what is intercepted; what it takes apart bit by bit are
    /// numbers that it prints.
    pub(super) fn is_c_library(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        ["libc.so", "libc-2.", "ld-musl"].iter().any(|prefix| name.starts_with(prefix))
    }
}

/// An instruction at which activity was lost.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// Its address in memory.
    pub address: u64,
    /// `None` for generated code.
    pub origin: Option<Origin>,
    /// What an active value met there.
    pub operation: String,
    /// How often.
    pub count: u64,
}

impl Loss {
    fn is_outside(&self) -> bool {
        !self.origin.as_ref().is_some_and(Origin::is_c_library)
    }
}

/// By address. What an address stands for is found out at its first loss: later the library may be unloaded.
static LOST: LazyLock<Mutex<HashMap<u64, Loss>>> = LazyLock::new(Mutex::default);
/// How many losses there have been outside the C library, also those that have been taken.
static OUTSIDE: AtomicU64 = AtomicU64::new(0);
/// Operands that were put together from parts of numbers; found where nobody knows the instruction any more.
static IN_PIECES: AtomicU64 = AtomicU64::new(0);
/// Bytes with active values that system calls have taken out of the program.
static LEFT: AtomicU64 = AtomicU64::new(0);

fn lost() -> MutexGuard<'static, HashMap<u64, Loss>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a loss of activity at an instruction.
pub(crate) fn lost_at(address: u64) {
    count(address, instruction_at);
}

/// Takes back a loss that [`lost_at`] has counted: nothing has been lost after all.
pub(crate) fn not_lost_at(address: u64) {
    // A note may have been printed meanwhile, at the end of a recording.
    if let Some(loss) = lost().get_mut(&address).filter(|loss| loss.count != 0) {
        loss.count -= 1;
        OUTSIDE.fetch_sub(u64::from(loss.is_outside()), Ordering::Relaxed);
    }
}

/// Counts a loss of activity because a call of the math function at `address` did not return.
pub(crate) fn lost_in_call(address: u64) {
    count(address, |_| "call that did not return".to_owned());
}

/// Counts a loss of activity because the function at `address` has compressed active values.
pub(crate) fn lost_in_compression(address: u64) {
    count(address, |_| "call that compresses".to_owned());
}

/// Counts operands that were put together from parts of numbers.
pub(crate) fn lost_in_pieces(operands: u64) {
    IN_PIECES.fetch_add(operands, Ordering::Relaxed);
    OUTSIDE.fetch_add(operands, Ordering::Relaxed);
}

fn count(address: u64, describe: fn(u64) -> String) {
    let mut lost = lost();
    let loss = lost.entry(address).or_insert_with(|| Loss {
        address,
        origin: Origin::of(address),
        operation: describe(address),
        count: 0,
    });
    loss.count += 1;
    OUTSIDE.fetch_add(u64::from(loss.is_outside()), Ordering::Relaxed);
}

/// The instruction at an address as text.
fn instruction_at(address: u64) -> String {
    const LONGEST: usize = 15;
    let mut bytes = [0; LONGEST];
    // What lies behind the end of the mapping stays zero.
    for (at, byte) in (address..).zip(&mut bytes) {
        match user::read::<u8>(at) {
            Ok(value) => *byte = value,
            Err(_) => break,
        }
    }
    let instruction = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
    let mut text = String::new();
    IntelFormatter::new().format(&instruction, &mut text);
    text
}

/// Counts bytes with active values that have left the program.
pub(super) fn left(bytes: u64) {
    LEFT.fetch_add(bytes, Ordering::Relaxed);
}

/// Whether activity has been lost outside the C library since the start of the process.
pub(super) fn any() -> bool {
    OUTSIDE.load(Ordering::Relaxed) != 0
}

/// How many losses outside the C library have been counted and not taken.
pub(crate) fn lost_count() -> u64 {
    lost().values().filter(|loss| loss.is_outside()).map(|loss| loss.count).sum()
}

/// What has been counted since the last time.
#[derive(Default)]
pub(super) struct Counted {
    /// By instruction.
    pub losses: Vec<Loss>,
    /// Operands that were put together from parts of numbers.
    pub in_pieces: u64,
    /// Bytes with active values that have left the program.
    pub left: u64,
}

/// What has been counted since the last time.
pub(super) fn take() -> Counted {
    Counted {
        losses: lost().drain().map(|(_, loss)| loss).filter(|loss| loss.count != 0).collect(),
        in_pieces: IN_PIECES.swap(0, Ordering::Relaxed),
        left: LEFT.swap(0, Ordering::Relaxed),
    }
}

/// To be held across `fork`.
pub(super) fn lock() -> impl Sized + 'static {
    lost()
}

/// In the child after `fork`: what its parent has counted is the parent's.
pub(super) fn forget() {
    take();
    OUTSIDE.store(0, Ordering::Relaxed);
}

/// The name of a file without its directories.
pub(super) fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
