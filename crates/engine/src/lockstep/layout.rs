//! System calls that change the memory layout: what has to be done natively for the same effect.
//!
//! What a file mapping shows is copied: native memory has nothing to do with the files. Where a file is mapped shared, so that its mappings show
//! each other's changes, they are mappings of one object natively, too.

use std::ops::Range;

use super::event::{Event, Origin};
use crate::context::{Context, Gpr};
use crate::memory::{self, Kind, Mapping, PAGE, pages_up};

/// What has to be known of a call before it is made.
pub(super) struct Call {
    number: i64,
    arguments: [u64; 6],
    /// End of the `brk` heap.
    heap_end: u64,
    /// Parts of file mappings that an `mprotect` makes readable.
    revealed: Vec<Range<u64>>,
}

/// What follows from a call.
#[derive(Default)]
pub(super) struct Effect {
    pub event: Option<Event>,
    /// Memory whose content is not zero afterwards.
    pub filled: Vec<Range<u64>>,
}

impl Effect {
    fn event(event: Event) -> Effect {
        Effect { event: Some(event), filled: Vec::new() }
    }
}

impl Call {
    /// The call that the application is about to make.
    pub(super) fn about_to_be_made(context: &Context) -> Call {
        let number = context.reg(Gpr::Rax) as i64;
        let arguments =
            [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::R10, Gpr::R8, Gpr::R9].map(|register| context.reg(register));
        let revealed = match number {
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => unreadable_files(arguments[0], arguments[1]),
            _ => Vec::new(),
        };
        Call { number, arguments, heap_end: memory::heap().end, revealed }
    }

    /// Whether it changes the memory layout.
    pub(super) fn is_about_memory(&self) -> bool {
        matches!(
            self.number,
            libc::SYS_mmap
                | libc::SYS_munmap
                | libc::SYS_mprotect
                | libc::SYS_pkey_mprotect
                | libc::SYS_mremap
                | libc::SYS_brk
                | libc::SYS_madvise
                | libc::SYS_shmat
        )
    }

    /// Where the kernel puts the rest of the time that a call was to wait. It does so also if a signal has ended the waiting, and the call has
    /// no result of its own.
    pub(super) fn remaining_time(&self) -> Option<Range<u64>> {
        const TIME_BYTES: u64 = 16;
        let argument = match self.number {
            libc::SYS_nanosleep => 1,
            libc::SYS_ppoll => 2,
            libc::SYS_clock_nanosleep => 3,
            libc::SYS_select | libc::SYS_pselect6 => 4,
            _ => return None,
        };
        let address = self.arguments[argument];
        (address != 0).then_some(address..address.saturating_add(TIME_BYTES))
    }

    /// What follows if it has returned `value`.
    pub(super) fn effect(self, value: u64) -> Effect {
        if self.number == libc::SYS_brk {
            return self.heap_moved();
        }
        if (-4095..0).contains(&(value as i64)) {
            return Effect::default();
        }
        let [start, length, ..] = self.arguments;
        let whole = pages_up(length).unwrap_or(length);
        match self.number {
            libc::SYS_mmap => mapped(value, whole, self.arguments[2]),
            libc::SYS_shmat => {
                let end = memory::mapping_at(value).map_or(value, |mapping| mapping.end);
                mapped(value, end - value, (libc::PROT_READ | libc::PROT_WRITE) as u64)
            }
            libc::SYS_munmap => Effect::event(Event::Unmap { start, length: whole }),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => self.protected(whole),
            libc::SYS_mremap => self.moved(value),
            libc::SYS_madvise => self.advised(),
            _ => Effect::default(),
        }
    }

    fn heap_moved(&self) -> Effect {
        let (Some(before), Some(now)) = (pages_up(self.heap_end), pages_up(memory::heap().end)) else {
            return Effect::default();
        };
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => {
                Effect::event(Event::Map { start: before, length: now - before, protection, origin: None })
            }
            std::cmp::Ordering::Less => Effect::event(Event::Unmap { start: now, length: before - now }),
            std::cmp::Ordering::Equal => Effect::default(),
        }
    }

    fn protected(self, length: u64) -> Effect {
        let [start, _, protection, ..] = self.arguments;
        let mut range = start..start + length;
        if protection & libc::PROT_GROWSDOWN as u64 != 0 {
            range.start = memory::mapping_at(start).map_or(start, |mapping| mapping.start);
        }
        let protection = protection & (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let event = Event::Protect { start: range.start, length: range.end - range.start, protection };
        Effect { event: (!range.is_empty()).then_some(event), filled: self.revealed }
    }

    fn moved(&self, target: u64) -> Effect {
        let [start, old_length, new_length, flags, ..] = self.arguments;
        let [old_length, new_length] = [old_length, new_length].map(|length| pages_up(length).unwrap_or(length));
        let event = Event::Remap { start, old_length, new_length, flags, target };
        let filled = file_parts(target..target + new_length).map(|(range, _)| range).collect();
        Effect { event: Some(event), filled }
    }

    fn advised(&self) -> Effect {
        let [start, length, advice, ..] = self.arguments;
        let Some(length) = pages_up(length) else { return Effect::default() };
        match advice as i32 {
            // Of a file mapping the file's content appears again.
            libc::MADV_DONTNEED | libc::MADV_REMOVE => Effect {
                event: Some(Event::Advise { start, length, advice: libc::MADV_DONTNEED as u64 }),
                filled: file_parts(start..start + length).map(|(range, _)| range).collect(),
            },
            // MADV_FREE: nobody may rely on what is read until it is written. Everything else is a matter of speed.
            _ => Effect::default(),
        }
    }
}

/// New memory. What it shows is copied if it is not anonymous.
fn mapped(start: u64, length: u64, protection: u64) -> Effect {
    let origin = memory::mapping_at(start).and_then(|mapping| origin(&mapping));
    let filled = file_parts(start..start + length).map(|(range, _)| range).collect();
    Effect { event: Some(Event::Map { start, length, protection, origin }), filled }
}

/// The file that a mapping shows.
pub(super) fn origin(mapping: &Mapping) -> Option<Origin> {
    let Kind::File { origin, offset } = &mapping.kind else { return None };
    let shared = mapping.shared.then_some((origin.device, origin.inode));
    Some(Origin { path: origin.path.to_path_buf(), offset: *offset, shared })
}

/// The parts of a range in which something other than anonymous memory is mapped.
fn file_parts(range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Mapping)> {
    memory::mappings().into_iter().filter_map(move |mapping| {
        let part = range.start.max(mapping.start)..range.end.min(mapping.end);
        let content = matches!(mapping.kind, Kind::File { .. } | Kind::SharedSegment { .. });
        (content && !part.is_empty()).then_some((part, mapping))
    })
}

fn unreadable_files(start: u64, length: u64) -> Vec<Range<u64>> {
    let end = start.saturating_add(pages_up(length).unwrap_or(length));
    file_parts(start & !(PAGE - 1)..end)
        .filter(|(_, mapping)| !mapping.protection.readable())
        .map(|(range, _)| range)
        .collect()
}
