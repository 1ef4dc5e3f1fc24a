//! The shadow layers: layer k of address `a` lies at `a + (k+1)·SHADOW_STRIDE`.
//!
//! The distance is no multiple of the page size. So a page at either edge of a mapping's shadow belongs in part to what lies beside the mapping: it
//! is mapped as long as one of the two is, and cleared instead of being replaced.

use std::arch::global_asm;
use std::ops::Range;

use super::{PAGE, SHADOW_STRIDE, host};

/// Ranges from this size on are cleared by giving their pages back rather than by looking at each word.
const DISCARD_FROM: u64 = 256 * 1024;

/// Shadow addresses that belong to an application range, one for each layer.
fn layers(range: &Range<u64>, count: u32) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    (1..=u64::from(count)).map(move |k| start + k * SHADOW_STRIDE..end + k * SHADOW_STRIDE)
}

fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The pages that belong to a range alone; none if the range is short.
fn inner(range: &Range<u64>) -> Range<u64> {
    let start = range.start.next_multiple_of(PAGE);
    start..page_of(range.end).max(start)
}

/// The parts of a range in pages that it shares with what lies before and behind it; empty where there is no such page.
fn edges(range: &Range<u64>) -> [Range<u64>; 2] {
    let Range { start, end } = inner(range);
    [range.start..start.min(range.end), end.min(range.end)..range.end]
}

/// Maps a page if nothing is there.
fn map_page(page: u64) -> Result<(), i32> {
    match host::map_where_free(page..page + PAGE, libc::PROT_READ | libc::PROT_WRITE) {
        Err(libc::EEXIST) => Ok(()),
        outcome => outcome,
    }
}

/// Maps zero shadow for `range`, replacing what was there.
pub(super) fn map(range: Range<u64>, count: u32) -> Result<(), i32> {
    for layer in layers(&range, count) {
        let pages = page_of(layer.start)..layer.end.next_multiple_of(PAGE);
        match host::map_where_free(pages, libc::PROT_READ | libc::PROT_WRITE) {
            Err(libc::EEXIST) => {}
            outcome => {
                outcome?;
                continue;
            }
        }
        let own = inner(&layer);
        if !own.is_empty() {
            host::map_anonymous(own, libc::PROT_READ | libc::PROT_WRITE)?;
        }
        for edge in edges(&layer).into_iter().filter(|edge| !edge.is_empty()) {
            map_page(page_of(edge.start))?;
            clear_bytes(edge);
        }
    }
    Ok(())
}

/// What lies beside a range of the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    /// The page below its first one is mapped.
    pub below: bool,
    /// The page above its last one is mapped.
    pub above: bool,
}

/// Unmaps the shadow of `range`.
pub(super) fn unmap(range: Range<u64>, count: u32, neighbours: Neighbours) {
    for layer in layers(&range, count) {
        // Unmapping fails only when the kernel runs out of mapping structures; the shadow then stays and is replaced at reuse.
        let own = inner(&layer);
        if !own.is_empty() {
            let _ = host::unmap(own);
        }
        for (edge, shared) in edges(&layer).into_iter().zip([neighbours.below, neighbours.above]) {
            if edge.is_empty() {
                continue;
            }
            if shared {
                clear_bytes(edge);
            } else {
                let page = page_of(edge.start);
                let _ = host::unmap(page..page + PAGE);
            }
        }
    }
}

/// Gives the kernel the same advice for shadow as for data. What takes a child something away concerns pages that belong to the range alone (see [`clear_edges`] for the others), what
/// leaves it there all pages that have a part of it.
pub(super) fn advise(range: Range<u64>, count: u32, advice: i32) {
    let takes = matches!(advice, libc::MADV_DONTFORK | libc::MADV_WIPEONFORK);
    for layer in layers(&range, count) {
        let pages = page_of(layer.start)..layer.end.next_multiple_of(PAGE);
        host::advise(if takes { inner(&layer) } else { pages }, advice);
    }
}

/// Makes zero what belongs to a range in pages that it shares with what lies beside it.
pub(super) fn clear_edges(range: &Range<u64>, count: u32) {
    layers(range, count).flat_map(|layer| edges(&layer)).for_each(clear_bytes);
}

/// Moves the shadow of `length` bytes from one application address to another, where shadow is mapped; the source's shadow is zero or unmapped
/// afterwards.
pub(super) fn relocate(from: u64, to: u64, length: u64, count: u32) -> Result<(), i32> {
    for (source, target) in layers(&(from..from + length), count).zip(layers(&(to..to + length), count)) {
        let (own, own_target) = (inner(&source), inner(&target));
        if !own.is_empty() && host::remap(own.clone(), own_target.start, own.end - own.start).is_err() {
            // Shadow that was mapped piece by piece may consist of several kernel mappings, which do not move together.
            host::map_anonymous(own_target.clone(), libc::PROT_READ | libc::PROT_WRITE)?;
            for offset in (0..own.end - own.start).step_by(PAGE as usize) {
                // SAFETY: both pages are mapped shadow, which nobody else uses while its memory is being moved.
                unsafe { copy(own.start + offset..own.start + offset + PAGE, own_target.start + offset) };
            }
            host::unmap(own)?;
        }
        for (edge, edge_target) in edges(&source).into_iter().zip(edges(&target)) {
            // SAFETY: as above.
            unsafe { copy(edge.clone(), edge_target.start) };
            clear_bytes(edge);
        }
    }
    Ok(())
}

/// Copies shadow that is not zero.
///
/// # Safety
/// Both ranges are mapped shadow, aligned to words, and do not overlap.
unsafe fn copy(source: Range<u64>, target: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        let words = std::slice::from_raw_parts(source.start as *const u64, (source.end - source.start) as usize / 8);
        if words.iter().any(|&word| word != 0) {
            std::ptr::copy_nonoverlapping(words.as_ptr(), target as *mut u64, words.len());
        }
    }
}

/// Makes the shadow of `range` zero. Parts that are not mapped are skipped.
///
/// Pages that are zero already are not written to, so that clearing never makes memory grow.
pub(super) fn clear(range: Range<u64>, count: u32) {
    for layer in layers(&range, count) {
        if layer.end - layer.start >= DISCARD_FROM {
            host::discard(inner(&layer));
            edges(&layer).into_iter().for_each(clear_bytes);
        } else {
            clear_bytes(layer);
        }
    }
}

fn clear_bytes(range: Range<u64>) {
    let mut at = range.start;
    while at < range.end {
        // SAFETY: the routine writes zeros to shadow memory only and stops at the first byte that is not mapped.
        let rest = unsafe { derivgrind_clear(at as *mut u8, range.end - at) };
        if rest == 0 {
            break;
        }
        // Continue behind the page that is not mapped.
        at = (range.end - rest + 1).next_multiple_of(PAGE);
    }
}

unsafe extern "C" {
    /// Zeroes `length` bytes, writing only where they are not zero. Returns how many bytes were left when an access faulted, else 0.
    fn derivgrind_clear(start: *mut u8, length: u64) -> u64;
    static derivgrind_clear_begin: u8;
    static derivgrind_clear_end: u8;
    static derivgrind_clear_fault: u8;
}

/// Where a fault in the clearing routine continues: for the signal handler.
pub(crate) fn fault_continuation(pc: u64) -> Option<u64> {
    let begin = &raw const derivgrind_clear_begin as u64;
    let end = &raw const derivgrind_clear_end as u64;
    (begin..end).contains(&pc).then_some(&raw const derivgrind_clear_fault as u64)
}

// RDI: address, RSI: bytes left; both move on together, so that a fault leaves exact values. 32 bytes at a time when the address is
// aligned, single words and bytes before and behind.
global_asm!(
    ".globl derivgrind_clear, derivgrind_clear_begin, derivgrind_clear_end, derivgrind_clear_fault",
    ".hidden derivgrind_clear, derivgrind_clear_begin, derivgrind_clear_end, derivgrind_clear_fault",
    ".p2align 4",
    "derivgrind_clear:",
    "pxor xmm0, xmm0",
    "test rsi, rsi",
    "jz 9f",
    "derivgrind_clear_begin:",
    // Bytes.
    "2: test edi, 7",
    "jnz 4f",
    // Words.
    "3: cmp rsi, 8",
    "jb 4f",
    "test edi, 31",
    "jnz 5f",
    // Groups of four words.
    "6: cmp rsi, 32",
    "jb 5f",
    "mov rax, [rdi]",
    "mov rdx, [rdi + 16]",
    "or rax, [rdi + 8]",
    "or rdx, [rdi + 24]",
    "or rax, rdx",
    "jz 7f",
    "movaps [rdi], xmm0",
    "movaps [rdi + 16], xmm0",
    "7: add rdi, 32",
    "sub rsi, 32",
    "jnz 6b",
    "jmp 9f",
    "5: cmp rsi, 8",
    "jb 4f",
    "cmp qword ptr [rdi], 0",
    "je 8f",
    "mov qword ptr [rdi], 0",
    "8: add rdi, 8",
    "sub rsi, 8",
    "jnz 3b",
    "jmp 9f",
    "4: cmp byte ptr [rdi], 0",
    "je 8f",
    "mov byte ptr [rdi], 0",
    "8: inc rdi",
    "dec rsi",
    "jnz 2b",
    "derivgrind_clear_end:",
    "9: xor eax, eax",
    "ret",
    "derivgrind_clear_fault:",
    "mov rax, rsi",
    "ret",
);
