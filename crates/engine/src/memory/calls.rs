//! The memory calls of the kernel, restricted to the application window. Errors are error numbers.

use std::ops::Range;
use std::os::fd::RawFd;

use super::growth;
use super::map::{Kind, Mapping, Protection, pages_up};
use super::place::{self, Request};
use super::shadow::Neighbours;
use super::{APP_END, APP_START, APP_TOP, Aftermath, PAGE, State, file_origin, host, shadow, shadow_layers, state};
use crate::syscall::raw::{result, syscall};

impl State {
    /// Whether `bytes` more fit into the application's own limit.
    pub(super) fn within_limit(&self, bytes: u64) -> bool {
        self.size_limit == u64::MAX || self.map.total().saturating_add(bytes) <= self.size_limit
    }

    /// Which pages beside a range are mapped.
    pub(super) fn neighbours(&self, range: &Range<u64>) -> Neighbours {
        let is_mapped = |address: Option<u64>| address.is_some_and(|address| self.map.at(address).is_some());
        Neighbours { below: is_mapped(range.start.checked_sub(1)), above: is_mapped(Some(range.end)) }
    }

    /// Records that `range` now holds `mapping`, with fresh shadow.
    fn replace(&mut self, mapping: Mapping, aftermath: &mut Aftermath) -> Result<(), i32> {
        let range = mapping.start..mapping.end;
        let shadowed = shadow::map(range.clone(), shadow_layers());
        self.new_alias(&mapping, aftermath);
        aftermath.gone.extend(self.map.remove(range.clone()));
        if let Err(error) = shadowed {
            let _ = host::unmap(range.clone());
            shadow::unmap(range.clone(), shadow_layers(), self.neighbours(&range));
            self.freed(&range);
            return Err(error);
        }
        if mapping.protection.execute && matches!(mapping.kind, Kind::File { .. }) {
            aftermath.appeared.push(mapping.clone());
        }
        self.map.insert(mapping);
        Ok(())
    }

    /// Unmaps `range` and its shadow.
    fn release(&mut self, range: Range<u64>, aftermath: &mut Aftermath) -> Result<(), i32> {
        self.release_guards(range.clone(), aftermath);
        host::unmap(range.clone())?;
        shadow::unmap(range.clone(), shadow_layers(), self.neighbours(&range));
        aftermath.gone.extend(self.map.remove(range.clone()));
        self.freed(&range);
        Ok(())
    }
}

/// The page-aligned range of a call's arguments; `error` if it is not aligned, empty or leaves the window.
fn checked_range(start: u64, length: u64, error: i32) -> Result<Range<u64>, i32> {
    if !start.is_multiple_of(PAGE) {
        return Err(libc::EINVAL);
    }
    let length = pages_up(length).ok_or(error)?;
    match start.checked_add(length) {
        Some(end) if end <= APP_TOP => Ok(start..end),
        _ => Err(error),
    }
}

/// `mmap`. Returns the address.
///
/// # Errors
/// As the call's; an address outside the window fails with ENOMEM, as on a machine with fewer address bits.
pub fn map(hint: u64, length: u64, protection: i32, flags: i32, descriptor: RawFd, offset: u64) -> Result<u64, i32> {
    if length == 0 || !offset.is_multiple_of(PAGE) {
        return Err(libc::EINVAL);
    }
    let length = pages_up(length).filter(|&length| length < APP_END).ok_or(libc::ENOMEM)?;
    let anonymous = flags & libc::MAP_ANONYMOUS != 0;
    let origin = if anonymous {
        None
    } else {
        // The kernel's check of the descriptor comes first, too.
        Some(file_origin(descriptor).ok_or(libc::EBADF)?)
    };
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let grows_down = flags & libc::MAP_GROWSDOWN != 0;
    if grows_down && (shared || !anonymous) {
        return Err(libc::EINVAL);
    }
    let access = Protection::from_bits(protection);
    let request = Request { length, protection: access, flags, descriptor: (!anonymous).then_some(descriptor) };

    let mut aftermath = Aftermath::new();
    let mut state = state();
    let start = choose(&mut state, hint, &request)?;
    if !state.within_limit(length) {
        return Err(libc::ENOMEM);
    }
    let range = start..start + length;
    state.release_guards(range.clone(), &mut aftermath);
    host::map(range.clone(), access.host_bits(), flags, if anonymous { -1 } else { descriptor }, offset)?;
    let kind = origin.map_or(Kind::Anonymous, |origin| Kind::File { origin, offset });
    let mapping = Mapping { shared, grows_down, ..Mapping::private(range, access, kind) };
    if grows_down {
        growth::expect();
    }
    let outcome = state.replace(mapping, &mut aftermath);
    outcome.map(|()| start)
}

/// The address for a request: fixed, hinted or chosen.
fn choose(state: &mut State, hint: u64, request: &Request) -> Result<u64, i32> {
    let fits = |start: u64| start >= APP_START && start.checked_add(request.length).is_some_and(|end| end <= APP_TOP);
    if request.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        if !hint.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if !fits(hint) {
            return Err(if hint < APP_START { libc::EPERM } else { libc::ENOMEM });
        }
        let replace = request.flags & libc::MAP_FIXED_NOREPLACE == 0;
        if !replace && !state.map.is_free(hint..hint + request.length) {
            return Err(libc::EEXIST);
        }
        return Ok(hint);
    }
    let aligned = hint & !(PAGE - 1);
    let is_free = |state: &State, range: Range<u64>| state.map.is_free(range.clone()) && state.keeps_gap(range.end);
    if aligned != 0 && fits(aligned) && is_free(state, aligned..aligned + request.length) {
        return Ok(aligned);
    }
    state.place(request).ok_or(libc::ENOMEM)
}

/// Maps the main thread's stack of `length` bytes (whole pages) and returns its range. It grows beyond if the program raises the limit.
pub(crate) fn map_stack(length: u64, protection: Protection) -> Result<Range<u64>, i32> {
    let range = place::STACK_TOP - length..place::STACK_TOP;
    let mut aftermath = Aftermath::new();
    let mut state = state();
    host::map_anonymous(range.clone(), protection.host_bits())?;
    let mapping = Mapping { grows_down: true, ..Mapping::private(range.clone(), protection, Kind::Stack) };
    growth::expect();
    let outcome = state.replace(mapping, &mut aftermath);
    drop(state);
    outcome.map(|()| range)
}

/// `munmap`.
///
/// # Errors
/// As the call's.
pub fn unmap(start: u64, length: u64) -> Result<(), i32> {
    let range = checked_range(start, length, libc::EINVAL)?;
    if range.is_empty() {
        return Err(libc::EINVAL);
    }
    let mut aftermath = Aftermath::new();
    state().release(range, &mut aftermath)
}

/// `mprotect`.
///
/// # Errors
/// As the call's.
pub fn protect(start: u64, length: u64, protection: i32) -> Result<(), i32> {
    let mut range = checked_range(start, length, libc::ENOMEM)?;
    if range.is_empty() {
        return Ok(());
    }
    let mut aftermath = Aftermath::new();
    let access = Protection::from_bits(protection);
    {
        let mut state = state();
        if protection & libc::PROT_GROWSDOWN != 0 {
            // The whole of a stack that grows downwards.
            match state.map.at(range.start) {
                Some(mapping) if mapping.grows_down => range.start = mapping.start,
                _ => return Err(libc::EINVAL),
            }
        }
        if !state.map.is_covered(range.clone()) {
            return Err(libc::ENOMEM);
        }
        state.release_guards(range.clone(), &mut aftermath);
        host::protect(range.clone(), access.host_bits())?;
        aftermath.changed = state.map.protect(range.clone(), access);
        if access.write && aftermath.changed.iter().any(Mapping::is_constant) {
            // Any code may have been translated on the assumption that the program does not write there.
            aftermath.stale.push(0..APP_END);
        }
        if access.execute {
            for before in aftermath.changed.iter().filter(|mapping| !mapping.protection.execute) {
                if matches!(before.kind, Kind::File { .. }) {
                    aftermath.appeared.push(before.clone());
                }
            }
        }
    }
    Ok(())
}

/// `mremap`. Returns the new address.
///
/// # Errors
/// As the call's.
pub fn remap(start: u64, old_length: u64, new_length: u64, flags: i32, target: u64) -> Result<u64, i32> {
    const DONTUNMAP: i32 = 4;
    let old = checked_range(start, old_length, libc::EINVAL)?;
    let new_length = pages_up(new_length).filter(|&length| length != 0 && length < APP_END).ok_or(libc::EINVAL)?;
    let (may_move, fixed, keep) =
        (flags & libc::MREMAP_MAYMOVE != 0, flags & libc::MREMAP_FIXED != 0, flags & DONTUNMAP != 0);
    if flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | DONTUNMAP) != 0 || (fixed || keep) && !may_move {
        return Err(libc::EINVAL);
    }
    let mut aftermath = Aftermath::new();
    let mut state = state();
    let mapping = state.map.at(start).cloned().ok_or(libc::EFAULT)?;
    state.release_guards(old.clone(), &mut aftermath);
    if old.end > mapping.end {
        return Err(libc::EFAULT);
    }
    let old_length = old.end - old.start;
    if new_length > old_length && !state.within_limit(new_length - old_length) {
        return Err(libc::ENOMEM);
    }
    let in_place = !fixed && !keep && old_length != 0;
    if in_place && new_length <= old_length {
        let outcome =
            if new_length < old_length { state.release(start + new_length..old.end, &mut aftermath) } else { Ok(()) };
        return outcome.map(|()| start);
    }
    let room = old.end..start.saturating_add(new_length);
    if in_place && room.end <= APP_TOP && state.map.is_free(room.clone()) {
        call_mremap(&old, new_length, 0, 0)?;
        let mut grown = mapping.clone();
        grown.kind = mapping.kind.advanced(room.start - mapping.start);
        (grown.start, grown.end) = (room.start, room.end);
        let outcome = state.replace(grown, &mut aftermath);
        return outcome.map(|()| start);
    }
    if !may_move {
        return Err(libc::ENOMEM);
    }
    let target = if fixed {
        let range = checked_range(target, new_length, libc::EINVAL)?;
        if range.start < old.end && old.start < range.end {
            return Err(libc::EINVAL);
        }
        range.start
    } else {
        let flags = libc::MAP_NORESERVE;
        let request = Request { length: new_length, protection: mapping.protection, flags, descriptor: None };
        state.place(&request).ok_or(libc::ENOMEM)?
    };
    state.release_guards(target..target + new_length, &mut aftermath);
    call_mremap(&old, new_length, flags | libc::MREMAP_FIXED, target)?;
    let moved = Mapping {
        start: target,
        end: target + new_length,
        kind: mapping.kind.advanced(start - mapping.start),
        ..mapping.clone()
    };
    let outcome = state.replace(moved, &mut aftermath);
    if outcome.is_ok() && old_length != 0 {
        let layers = shadow_layers();
        let common = old_length.min(new_length);
        let _ = shadow::relocate(start, target, common, layers);
        if keep {
            let _ = shadow::map(old.clone(), layers);
            aftermath.changed.extend(state.map.overlapping(old).cloned());
        } else {
            shadow::unmap(old.clone(), layers, state.neighbours(&old));
            aftermath.gone.extend(state.map.remove(old.clone()));
            state.freed(&old);
        }
    }
    outcome.map(|()| target)
}

fn call_mremap(old: &Range<u64>, new_length: u64, flags: i32, target: u64) -> Result<(), i32> {
    let arguments = [old.start, old.end - old.start, new_length, flags as u64, target, 0];
    // SAFETY: both ranges lie in the application window, which holds no Rust objects.
    result(unsafe { syscall(libc::SYS_mremap, arguments) }).map(drop)
}

/// `madvise`: passed on, and advice that makes the content zero makes the shadow zero, too.
///
/// # Errors
/// As the call's.
pub fn advise(start: u64, length: u64, advice: i32) -> Result<(), i32> {
    let range = checked_range(start, length, libc::EINVAL)?;
    let arguments = [range.start, length, advice as u64, 0, 0, 0];
    // SAFETY: the range lies in the application window.
    let outcome = result(unsafe { syscall(libc::SYS_madvise, arguments) }).map(drop);
    // What becomes of the data in a forked child becomes of its shadow.
    if matches!(advice, libc::MADV_DONTFORK | libc::MADV_DOFORK | libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK)
        && outcome.is_ok()
    {
        shadow::advise(range.clone(), shadow_layers(), advice);
        if matches!(advice, libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK) {
            state().map.set_wiped(range.clone(), advice == libc::MADV_WIPEONFORK);
        }
    }
    // ENOMEM: parts were unmapped, the rest was processed.
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE)
        && matches!(outcome, Ok(()) | Err(libc::ENOMEM))
    {
        super::clear_shadow(range.start, range.end - range.start);
        let mut aftermath = Aftermath::new();
        aftermath.changed = state().map.overlapping(range).cloned().collect();
    }
    outcome
}

/// In a forked child, where the kernel has made memory zero: clears what belongs to its shadow in pages that are shared with other shadow.
pub(crate) fn wipe_in_child() {
    let wiped: Vec<Range<u64>> =
        state().map.iter().filter(|mapping| mapping.wiped).map(|mapping| mapping.start..mapping.end).collect();
    wiped.into_iter().for_each(|range| shadow::clear_edges(&range, shadow_layers()));
}

/// Says where the `brk` heap begins, or nothing to leave it at its usual place; to be called before the program starts.
pub fn set_break_start(start: u64) {
    state().heap = start..start;
}

/// `brk`: returns the new end of the heap, or the old one if it cannot be moved there.
pub fn change_break(wanted: u64) -> u64 {
    let mut aftermath = Aftermath::new();
    let mut state = state();
    let heap = state.heap.clone();
    if wanted < heap.start || wanted > place::HEAP.end {
        return heap.end;
    }
    let (Some(old_end), Some(new_end)) = (pages_up(heap.end), pages_up(wanted)) else {
        return heap.end;
    };
    let moved = if new_end > old_end {
        let range = old_end..new_end;
        let access = Protection::from_bits(libc::PROT_READ | libc::PROT_WRITE);
        let mapping = Mapping::private(range.clone(), access, Kind::Brk);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        if !state.map.is_free(range.clone()) || !state.within_limit(new_end - old_end) {
            Err(libc::ENOMEM)
        } else {
            host::map(range, access.host_bits(), flags, -1, 0).and_then(|()| state.replace(mapping, &mut aftermath))
        }
    } else if new_end < old_end {
        state.release(new_end..old_end, &mut aftermath)
    } else {
        Ok(())
    };
    if moved.is_ok() {
        state.heap.end = wanted;
    }
    state.heap.end
}

/// `shmat`: the segment lands inside the window. Returns the address.
///
/// # Errors
/// As the call's.
pub fn attach_segment(identifier: i32, address: u64, flags: i32) -> Result<u64, i32> {
    // SAFETY: all-zero bytes are a valid `shmid_ds`, which the call fills.
    let length = unsafe {
        let mut description: libc::shmid_ds = std::mem::zeroed();
        if libc::shmctl(identifier, libc::IPC_STAT, &mut description) != 0 {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        description.shm_segsz as u64
    };
    let length = pages_up(length).ok_or(libc::ENOMEM)?;
    let mut bits = libc::PROT_READ;
    if flags & libc::SHM_RDONLY == 0 {
        bits |= libc::PROT_WRITE;
    }
    let access = Protection::from_bits(bits);
    let mut aftermath = Aftermath::new();
    let mut state = state();
    let start = if address == 0 {
        let request = Request { length, protection: access, flags: 0, descriptor: None };
        state.place(&request).ok_or(libc::ENOMEM)?
    } else {
        let rounded = if flags & libc::SHM_RND != 0 { address & !(PAGE - 1) } else { address };
        let range = checked_range(rounded, length, libc::EINVAL)?;
        if flags & libc::SHM_REMAP == 0 && !state.map.is_free(range) {
            return Err(libc::EINVAL);
        }
        rounded
    };
    state.release_guards(start..start + length, &mut aftermath);
    let arguments = [identifier as u64, start, (flags | libc::SHM_REMAP) as u64, 0, 0, 0];
    // SAFETY: the range lies in the application window.
    result(unsafe { syscall(libc::SYS_shmat, arguments) })?;
    let kind = Kind::SharedSegment { identifier, attached_at: start };
    let mapping = Mapping { shared: true, ..Mapping::private(start..start + length, access, kind) };
    let outcome = state.replace(mapping, &mut aftermath);
    outcome.map(|()| start)
}

/// `shmdt`.
///
/// # Errors
/// As the call's.
pub fn detach_segment(address: u64) -> Result<(), i32> {
    let mut aftermath = Aftermath::new();
    let mut state = state();
    let parts: Vec<Range<u64>> = state
        .map
        .iter()
        .filter(|mapping| matches!(mapping.kind, Kind::SharedSegment { attached_at, .. } if attached_at == address))
        .map(|mapping| mapping.start..mapping.end)
        .collect();
    // SAFETY: the kernel detaches only what `shmat` has attached.
    result(unsafe { syscall(libc::SYS_shmdt, [address, 0, 0, 0, 0, 0]) })?;
    for part in parts {
        state.release(part, &mut aftermath)?;
    }
    Ok(())
}
