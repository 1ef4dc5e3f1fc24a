//! What went wrong or was not differentiated, counted while the program runs and told at exit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use derivgrind_engine::memory;
use derivgrind_tape::TapeError;

use crate::shadow::NARROW_LIMIT;

/// Where active values met operations that are not differentiated: address of the instruction and how often.
static LOST: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Counts a loss of activity at an instruction.
pub(super) fn lost_at(address: u64) {
    *LOST.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default() += 1;
}

/// A binary32 value should have got an index that does not fit into its shadow.
pub(super) fn narrow_overflow() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        tell(&format!(
            "binary32 values cannot have indices of {NARROW_LIMIT} and above; from here on they are passive and the gradient is \
             WRONG. Record a shorter run, or compute in binary64."
        ));
    }
}

/// The tape cannot be written.
pub(super) fn tape_error(error: &TapeError) {
    tell(&format!("{error}; the tape is incomplete"));
}

/// Prints the summary of losses.
pub(super) fn print() {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    if lost.is_empty() {
        return;
    }
    let total: u64 = lost.values().sum();
    let mut objects: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (&address, &count) in lost.iter() {
        let entry = objects.entry(object_of(address)).or_default();
        entry.0 += 1;
        entry.1 += count;
    }
    let places: Vec<String> = objects
        .iter()
        .map(|(object, (places, count))| format!("{count} at {places} instruction{} of {object}", plural(*places)))
        .collect();
    tell(&format!(
        "active values met {total} operation{} that {} not differentiated; their results count as constants: {}",
        plural(total as usize),
        if total == 1 { "is" } else { "are" },
        places.join(", ")
    ));
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The executable or library that an address belongs to.
fn object_of(address: u64) -> String {
    match memory::mapping_at(address).map(|mapping| mapping.kind) {
        Some(memory::Kind::File { origin, .. }) => origin.path.display().to_string(),
        _ => "generated code".to_owned(),
    }
}

fn tell(message: &str) {
    derivgrind_engine::report(message);
}
