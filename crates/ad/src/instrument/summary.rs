//! What went wrong or was not differentiated, counted while the program runs and told at exit.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use derivgrind_engine::memory;
/// Where active values met operations that are not differentiated: address of the instruction and how often.
static LOST: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Counts a loss of activity at an instruction.
pub(crate) fn lost_at(address: u64) {
    *LOST.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default() += 1;
}

/// Prints the summary of losses: where active values met operations that are not differentiated.
///
/// The C library itself is left out. It does no real arithmetic beyond what is intercepted; what it takes apart bit by bit are numbers that
/// it prints.
pub(super) fn print() {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut objects: BTreeMap<String, Losses> = BTreeMap::new();
    for (&address, &count) in lost.iter() {
        let (object, offset) = object_of(address);
        if !is_c_library(&object) {
            let losses = objects.entry(object).or_default();
            losses.instructions += 1;
            losses.times += count;
            losses.first.get_or_insert(offset);
        }
    }
    let total: u64 = objects.values().map(|losses| losses.times).sum();
    if total == 0 {
        return;
    }
    let places: Vec<String> = objects.iter().map(|(object, losses)| losses.describe(object)).collect();
    derivgrind_engine::report(&format!(
        "active values met {total} operation{} that {} not differentiated; their results count as constants: {}",
        plural(total),
        if total == 1 { "is" } else { "are" },
        places.join(", ")
    ));
}

/// Losses in one executable or library.
#[derive(Default)]
struct Losses {
    instructions: u64,
    times: u64,
    first: Option<u64>,
}

impl Losses {
    fn describe(&self, object: &str) -> String {
        let (first, instructions) = (self.first.unwrap_or(0), self.instructions);
        let plural = plural(instructions);
        format!(
            "{} at {instructions} instruction{plural} of {object} (the first at file offset {first:#x})",
            self.times
        )
    }
}

fn is_c_library(object: &str) -> bool {
    let name = object.rsplit('/').next().unwrap_or(object);
    ["libc.so", "libc-2.", "ld-musl"].iter().any(|prefix| name.starts_with(prefix))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The executable or library that an address belongs to, with the offset in its file; for memory that is no file's, the address.
fn object_of(address: u64) -> (String, u64) {
    match memory::mapping_at(address) {
        Some(memory::Mapping { start, kind: memory::Kind::File { origin, offset }, .. }) => {
            (origin.path.display().to_string(), address - start + offset)
        }
        _ => ("generated code".to_owned(), address),
    }
}
