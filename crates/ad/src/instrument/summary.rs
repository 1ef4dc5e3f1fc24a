//! What is told at exit about values that were not differentiated.

use std::collections::HashMap;
use std::fmt::Write as _;

use derivgrind_engine::locate::{Location, Locator};
use derivgrind_engine::report;

use super::losses::{self, Counted, Loss, Origin, short_name};

/// What is told at exit, and what comes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reporting {
    /// No notes.
    pub quiet: bool,
    /// Lost activity is an error: it is told even if `quiet`, and a program that ends with exit code 0 ends with [`EXIT_LOST`].
    pub strict: bool,
}

/// Exit code if activity was lost and that is an error (`docs/exit-codes.md`).
pub const EXIT_LOST: i32 = 3;

/// Places that are listed; more of them are only counted.
const LISTED: usize = 20;

impl Reporting {
    /// Prints the summary of what has been counted.
    pub(super) fn print(self) {
        if self.quiet && !self.strict {
            return;
        }
        let Counted { losses, in_pieces, left } = losses::take();
        let (in_c_library, losses): (Vec<Loss>, Vec<Loss>) =
            losses.into_iter().partition(|loss| loss.origin.as_ref().is_some_and(Origin::is_c_library));
        for text in texts(&losses, in_pieces) {
            report(&text);
        }
        if self.quiet {
            return;
        }
        let taken_apart: u64 = in_c_library.iter().map(|loss| loss.count).sum();
        if self.strict && taken_apart != 0 {
            report(&format!(
                "the C library took active values apart in {taken_apart} operation{}, as it does to print them; that is no error",
                plural(taken_apart)
            ));
        }
        if left != 0 {
            report(&format!(
                "activity left the program: {left} bytes of active values were written to files, pipes or sockets; what is read from there \
                 counts as constant"
            ));
        }
    }

    /// The exit code of a process whose program ends with `code`.
    pub(super) fn exit_code(self, code: i32) -> i32 {
        if self.strict && code & 0xff == 0 && losses::any() { EXIT_LOST } else { code }
    }
}

/// The summary of the losses since the last one, for others than the user at exit. `None` if there is nothing to tell.
pub(crate) fn take() -> Option<String> {
    let Counted { losses, in_pieces, .. } = losses::take();
    let losses: Vec<Loss> =
        losses.into_iter().filter(|loss| !loss.origin.as_ref().is_some_and(Origin::is_c_library)).collect();
    let texts: Vec<String> = texts(&losses, in_pieces).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What is told about losses outside the C library; nothing if there are none.
fn texts(losses: &[Loss], in_pieces: u64) -> impl Iterator<Item = String> {
    let by_instruction = (!losses.is_empty()).then(|| describe(losses));
    let in_pieces = (in_pieces != 0).then(|| {
        format!(
            "{in_pieces} operand{} put together from parts of active numbers (as by a detour through 16 bits) and count{} as constant{}",
            if in_pieces == 1 { " was" } else { "s were" },
            if in_pieces == 1 { "s" } else { "" },
            plural(in_pieces)
        )
    });
    by_instruction.into_iter().chain(in_pieces)
}

fn describe(losses: &[Loss]) -> String {
    let total: u64 = losses.iter().map(|loss| loss.count).sum();
    let mut text = format!(
        "active values met {total} operation{} that {} not differentiated; their results count as constants:",
        plural(total),
        if total == 1 { "is" } else { "are" },
    );
    let groups = group(losses);
    for group in groups.iter().take(LISTED) {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {}", group.describe());
    }
    if let Some(rest) = groups.get(LISTED..).filter(|rest| !rest.is_empty()) {
        let (places, times): (usize, u64) = (rest.len(), rest.iter().map(|group| group.count).sum());
        let _ = write!(text, "\n  {times} time{} at {places} other place{}", plural(times), plural(places as u64));
    }
    text
}

/// Losses on one source line, or at one instruction if the line is not known.
struct Group<'a> {
    count: u64,
    /// The most frequent one.
    loss: &'a Loss,
    /// How many instructions there are.
    instructions: usize,
    location: Location,
}

/// Groups, most frequent first.
fn group(losses: &[Loss]) -> Vec<Group<'_>> {
    let mut locator = Locator::new();
    let mut groups: HashMap<_, Group<'_>> = HashMap::new();
    for loss in losses {
        let location = loss.origin.as_ref().map(|at| locator.locate(&at.path, at.offset)).unwrap_or_default();
        let key = match &location.line {
            Some(line) => (location.function.clone(), Some(line.clone()), 0),
            None => (None, None, loss.address),
        };
        let group = groups.entry(key).or_insert_with(|| Group { count: 0, loss, instructions: 0, location });
        group.count += loss.count;
        group.instructions += 1;
        if (loss.count, group.loss.address) > (group.loss.count, loss.address) {
            group.loss = loss;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.count), group.loss.address));
    groups
}

impl Group<'_> {
    fn describe(&self) -> String {
        let Loss { address, origin, operation, .. } = self.loss;
        let mut text = format!("{} time{}: {operation}", self.count, plural(self.count));
        let others = self.instructions as u64 - 1;
        if others > 0 {
            let _ = write!(text, " and {others} other instruction{}", plural(others));
        }
        if let Some(function) = &self.location.function {
            let _ = write!(text, " in {function}");
        }
        let _ = match (&self.location.line, origin) {
            (Some((file, line)), _) => write!(text, " at {file}:{line}"),
            (None, Some(Origin { path, offset })) if self.location.function.is_some() => {
                write!(text, " of {} (file offset {offset:#x})", short_name(path))
            }
            (None, Some(Origin { path, offset })) => write!(text, " at file offset {offset:#x} of {}", path.display()),
            (None, None) => write!(text, " in generated code at {address:#x}"),
        };
        text
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
