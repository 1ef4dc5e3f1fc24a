//! The shadow layers: layer k of address `a` lies at `a + (k+1)·2^43`.

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

/// Maps zero shadow for `range`, replacing what was there.
pub(super) fn map(range: Range<u64>, count: u32) -> Result<(), i32> {
    for layer in layers(&range, count) {
        host::map_anonymous(layer, libc::PROT_READ | libc::PROT_WRITE)?;
    }
    Ok(())
}

/// Unmaps the shadow of `range`.
pub(super) fn unmap(range: Range<u64>, count: u32) {
    for layer in layers(&range, count) {
        // Unmapping fails only when the kernel runs out of mapping structures; the shadow then stays and is replaced at reuse.
        let _ = host::unmap(layer);
    }
}

/// Gives the kernel the same advice for shadow as for data.
pub(super) fn advise(range: Range<u64>, count: u32, advice: i32) {
    for layer in layers(&range, count) {
        host::advise(layer, advice);
    }
}

/// Moves the shadow of `length` bytes from one application address to another; the source's shadow is zero or unmapped afterwards.
pub(super) fn relocate(from: u64, to: u64, length: u64, count: u32) -> Result<(), i32> {
    for (source, target) in layers(&(from..from + length), count).zip(layers(&(to..to + length), count)) {
        if host::remap(source.clone(), target.start, length).is_ok() {
            continue;
        }
        // Shadow that was mapped piece by piece may consist of several kernel mappings, which do not move together.
        host::map_anonymous(target.clone(), libc::PROT_READ | libc::PROT_WRITE)?;
        for offset in (0..length).step_by(PAGE as usize) {
            // SAFETY: both shadow ranges are mapped and do not overlap; nobody else uses the shadow of memory being moved.
            unsafe {
                let page = std::slice::from_raw_parts((source.start + offset) as *const u64, PAGE as usize / 8);
                if page.iter().any(|&word| word != 0) {
                    std::ptr::copy_nonoverlapping(page.as_ptr(), (target.start + offset) as *mut u64, page.len());
                }
            }
        }
        host::unmap(source)?;
    }
    Ok(())
}

/// Makes the shadow of `range` zero. Parts that are not mapped are skipped.
///
/// Pages that are zero already are not written to, so that clearing never makes memory grow.
pub(super) fn clear(range: Range<u64>, count: u32) {
    for layer in layers(&range, count) {
        let inner = layer.start.next_multiple_of(PAGE)..layer.end & !(PAGE - 1);
        if layer.end - layer.start >= DISCARD_FROM {
            clear_bytes(layer.start..inner.start);
            host::discard(inner.clone());
            clear_bytes(inner.end..layer.end);
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
