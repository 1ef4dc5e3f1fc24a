//! What signal handlers do with a thread that is in cached code: let it leave at the end of its block, or rebuild the
//! application's state at a fault.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use crate::context::{Context, Gpr, VECTOR_STATE_BYTES, XSTATE_BV};
use crate::translate::{Pending, VECTOR_SLOTS, trampolines};

use super::{Cache, Locked, Set, lock, lookup};

/// Offsets in an XSAVE image of the standard format (Intel SDM volume 1, section 13.4).
const XMM_AREA: usize = 160;
const LEGACY_AREA: usize = 512;

/// How many look-ups can be diverted at a time: a signal diverts two, and its thread soon undoes all.
pub(super) const DIVERSIONS: usize = 1024;

/// Lets the calling thread, which a signal has interrupted at `pc`, come to the dispatcher soon. For use in signal handlers, after
/// `context.attention` has been set. May change `ucontext`'s instruction pointer.
///
/// # Safety
/// `context` is the calling thread's and `ucontext` the one of the signal being handled.
pub unsafe fn request_exit(ucontext: *mut libc::ucontext_t, context: *mut Context) {
    // SAFETY: as the caller promises. A thread that holds or awaits the cache's lock looks at `attention` after that.
    if unsafe { (*context).in_cache.load(Ordering::SeqCst) } != 0 {
        return;
    }
    let mut cache = lock();
    // SAFETY: as the caller promises.
    let (pc, jump) = unsafe { (instruction_pointer(ucontext), (*context).jump) };
    if let Some(search) = lookup::searching_at(pc) {
        // SAFETY: as the caller promises. Behind its first instruction RDX is spilled, as the rest of the routine expects it.
        unsafe {
            if pc == search.start {
                (*context).spill[Gpr::Rdx as usize] = (*ucontext).uc_mcontext.gregs[libc::REG_RDX as usize] as u64;
            }
            set_instruction_pointer(ucontext, search.miss);
        }
    }
    // A block has called a routine that lets registers change hands, and told it where to go on.
    // SAFETY: as the caller promises.
    let pc = if trampolines::exchanging_at(pc) { unsafe { return_of_exchange(ucontext) } } else { pc };
    if let Some((space, number)) = cache.block_at(pc) {
        let block = &cache.spaces[space].blocks[number];
        if block.is_arriving(pc) {
            let leave = trampolines::search(Set::of(space, block.key.1)).leave;
            // SAFETY: as the caller promises. There RAX still holds the target, and RAX and RCX are spilled.
            unsafe { set_instruction_pointer(ucontext, leave) };
        }
        cache.divert((space, number));
    }
    // The block that is being entered.
    if let Some(block) = cache.block_at(jump) {
        cache.divert(block);
    }
}

/// Lets the block that is about to be entered at `code` come back to the dispatcher at its end.
pub(crate) fn divert(cache: &mut Locked, code: u64) {
    if let Some(block) = cache.block_at(code) {
        cache.divert(block);
    }
}

impl Cache {
    /// Makes all ways out of a block lead to the dispatcher.
    fn divert(&mut self, (space, number): (usize, usize)) {
        let set = Set::of(space, self.spaces[space].blocks[number].key.1);
        let space = &self.spaces[space];
        space.unlink_exits(number);
        let Some(site) = space.blocks[number].lookup else { return };
        // What a signal handler interrupts may be the allocator: there is only the room that was made before. Without it the signal waits
        // for another way out.
        if self.diverted.len() == self.diverted.capacity() {
            return;
        }
        space.region.patch(site.displacement, self.lookup.leaving(set));
        self.diverted.push((site.displacement, set));
    }

    /// Undoes the diversion of indirect branches.
    pub(crate) fn undo_diversions(&mut self) {
        for (displacement, set) in self.diverted.drain(..) {
            if let Some(space) = self.spaces.iter().find(|space| space.region.contains(displacement)) {
                space.region.patch(displacement, lookup::first_level(set));
            }
        }
    }
}

/// After a synchronous fault: if it happened in cached code, fills the context with the exact application state at the faulting
/// instruction and redirects `ucontext` so that the handler returns to the dispatcher.
///
/// # Safety
/// `context` is the calling thread's and `ucontext` the one of the fault being handled.
pub unsafe fn recover(ucontext: *mut libc::ucontext_t, context: *mut Context) -> bool {
    // SAFETY: as the caller promises.
    let pc = unsafe { instruction_pointer(ucontext) };
    // SAFETY: as the caller promises. A fault while the lock is held is one of the engine, not of cached code.
    if unsafe { (*context).in_cache.load(Ordering::SeqCst) } != 0 {
        return false;
    }
    let cache = lock();
    let Some((space, number)) = cache.block_at(pc) else {
        return false;
    };
    let block = &cache.spaces[space].blocks[number];
    let Some(entry) = block.recovery_at(pc) else { return false };
    // SAFETY: the thread is in cached code, so nobody else uses its context; the kernel has filled `ucontext`.
    unsafe {
        let machine = &mut (*ucontext).uc_mcontext;
        for (number, index) in GREGS.into_iter().enumerate() {
            (*context).gpr[number] = machine.gregs[index] as u64;
        }
        for number in (0..16).filter(|n| entry.spilled & (1 << n) != 0) {
            (*context).gpr[number] = (*context).spill[number];
        }
        let flags = machine.gregs[libc::REG_EFL as usize] as u64;
        (*context).rflags = if entry.flags_saved { unpack_flags(flags, (*context).saved_flags) } else { flags };
        (*context).rip = entry.address;
        (*context).version = block.key.1;
        let lent = ((*context).lent != 0).then(|| Lent::of(context));
        save_vectors(context, machine.fpregs.cast::<u8>());
        (*context).complete_image = 1;
        for pending in &block.pending[entry.pending.0 as usize..entry.pending.1 as usize] {
            store_pending(context, pending, usize::from(block.vector_scratch[usize::from(pending.register)]));
        }
        if let Some(lent) = lent {
            lent.put_back(context);
        }
        let slots = block.vector_scratch.iter().enumerate().take(VECTOR_SLOTS);
        for (k, &vector) in slots.filter(|(k, _)| entry.vectors & (1 << k) != 0) {
            restore_spilled_vector(context, k, usize::from(vector));
        }
        if let Some(mask) = entry.mask {
            restore_mask(context, usize::from(mask));
        }
        set_instruction_pointer(ucontext, trampolines::get().abandon);
        // As at every exit: the engine's own arithmetic must not trap.
        (*machine.fpregs).mxcsr = (*context).host_mxcsr;
        (*context).exit = super::EXIT_SIGNAL;
    }
    true
}

/// Positions of the general registers in `gregs`, by hardware number.
const GREGS: [usize; 16] = [
    libc::REG_RAX as usize,
    libc::REG_RCX as usize,
    libc::REG_RDX as usize,
    libc::REG_RBX as usize,
    libc::REG_RSP as usize,
    libc::REG_RBP as usize,
    libc::REG_RSI as usize,
    libc::REG_RDI as usize,
    libc::REG_R8 as usize,
    libc::REG_R9 as usize,
    libc::REG_R10 as usize,
    libc::REG_R11 as usize,
    libc::REG_R12 as usize,
    libc::REG_R13 as usize,
    libc::REG_R14 as usize,
    libc::REG_R15 as usize,
];

/// Combines the flags that cannot be put aside with the status flags in the form of `lahf; seto al`.
fn unpack_flags(flags: u64, saved: u64) -> u64 {
    const FROM_LAHF: u64 = 0xd5;
    const OVERFLOW: u64 = 1 << 11;
    let overflow = if saved & 1 != 0 { OVERFLOW } else { 0 };
    flags & !(FROM_LAHF | OVERFLOW) | saved >> 8 & FROM_LAHF | overflow
}

/// # Safety
/// `image` is the kernel's floating-point frame of the present signal, `context` the calling thread's.
unsafe fn save_vectors(context: *mut Context, image: *const u8) {
    // Linux writes an XSAVE image of the standard format; its extent is in the software-reserved bytes of the legacy area
    // (`struct _fpx_sw_bytes` at 464: magic, extended size, feature mask, size).
    const MAGIC1: u32 = 0x4650_5853;
    // SAFETY: as the caller promises.
    unsafe {
        let magic = image.add(464).cast::<u32>().read_unaligned();
        let state = (*context).vector_state.as_mut_ptr();
        if magic == MAGIC1 {
            let size = image.add(480).cast::<u32>().read_unaligned() as usize;
            std::ptr::copy_nonoverlapping(image, state, size.min(VECTOR_STATE_BYTES));
            // Only components that `enter` loads count.
            let components = state.add(XSTATE_BV).cast::<u64>();
            components.write_unaligned(components.read_unaligned() & 0xe7);
        } else {
            std::ptr::copy_nonoverlapping(image, state, LEGACY_AREA);
        }
    }
}

/// The application's values of the registers that the tool has: see `translate::lent`.
struct Lent {
    masks: [u8; 64],
    vectors: [u8; 1024],
}

impl Lent {
    /// What the context's image has.
    ///
    /// # Safety
    /// `context` is the calling thread's, and the tool has the registers.
    unsafe fn of(context: *const Context) -> Lent {
        let layout = crate::translate::xsave_layout();
        // SAFETY: the processor has these components, since the registers are lent; their offsets lie within the image.
        unsafe {
            let state = (&raw const (*context).vector_state).cast::<u8>();
            Lent {
                masks: state.add(layout.masks).cast::<[u8; 64]>().read(),
                vectors: state.add(layout.upper_zmm).cast::<[u8; 1024]>().read(),
            }
        }
    }

    /// Puts it into an image that has the tool's values.
    ///
    /// # Safety
    /// As for [`Lent::of`].
    unsafe fn put_back(self, context: *mut Context) {
        let layout = crate::translate::xsave_layout();
        // SAFETY: as in `of`.
        unsafe {
            let state = (&raw mut (*context).vector_state).cast::<u8>();
            state.add(layout.masks).cast::<[u8; 64]>().write(self.masks);
            state.add(layout.upper_zmm).cast::<[u8; 1024]>().write(self.vectors);
            let components = state.add(XSTATE_BV).cast::<u64>();
            components.write_unaligned(components.read_unaligned() | trampolines::LENT_COMPONENTS);
        }
    }
}

/// Stores what the block has put off; `vector` is the register's hardware number.
///
/// # Safety
/// `context` is the calling thread's, its image has what was in the registers when the fault happened.
unsafe fn store_pending(context: *mut Context, pending: &Pending, vector: usize) {
    let layout = *crate::translate::xsave_layout();
    // Component, offset and bytes of each part of a register, from its low end.
    let low = [
        (1 << 1, XMM_AREA + 16 * vector, 16),
        (1 << 2, layout.ymm_high + 16 * vector, 16),
        (1 << 6, layout.zmm_high + 32 * vector, 32),
    ];
    let high = [(1 << 7, layout.upper_zmm + 64 * vector.saturating_sub(16), 64)];
    let parts = if vector < 16 { &low[..] } else { &high[..] };
    let mut register = [0u8; 64];
    let mut from = 0;
    // SAFETY: offsets within the image, as the processor reports them; the emitter gives places inside the context. Components that are not there
    // are zero.
    unsafe {
        let state = (&raw const (*context).vector_state).cast::<u8>();
        let present = state.add(XSTATE_BV).cast::<u64>().read_unaligned();
        for &(component, offset, bytes) in parts {
            if present & component != 0 {
                std::ptr::copy_nonoverlapping(state.add(offset), register[from..].as_mut_ptr(), bytes);
            }
            from += bytes;
        }
        let bytes = &register[usize::from(pending.within)..][..usize::from(pending.bytes)];
        let place = context.cast::<u8>().add(pending.place as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
    }
}

/// # Safety
/// `context` is the calling thread's.
unsafe fn restore_spilled_vector(context: *mut Context, k: usize, vector: usize) {
    let layout = *crate::translate::xsave_layout();
    // SAFETY: offsets within the image, as the processor reports them.
    unsafe {
        let spilled = (&raw const (*context).vector_spill[k]).cast::<u8>();
        let state = (*context).vector_state.as_mut_ptr();
        let components = state.add(XSTATE_BV).cast::<u64>();
        std::ptr::copy_nonoverlapping(spilled, state.add(XMM_AREA + 16 * vector), 16);
        let mut present = components.read_unaligned() | 2;
        let width = trampolines::vector_width();
        if width != trampolines::VectorWidth::Xmm {
            zero_if_absent(state, &mut present, 4, layout.ymm_high, 256);
            std::ptr::copy_nonoverlapping(spilled.add(16), state.add(layout.ymm_high + 16 * vector), 16);
        }
        if width == trampolines::VectorWidth::Zmm {
            zero_if_absent(state, &mut present, 1 << 6, layout.zmm_high, 512);
            std::ptr::copy_nonoverlapping(spilled.add(32), state.add(layout.zmm_high + 32 * vector), 32);
        }
        components.write_unaligned(present);
    }
    const { assert!(offset_of!(Context, vector_state) % 64 == 0) };
}

/// # Safety
/// `context` is the calling thread's.
unsafe fn restore_mask(context: *mut Context, number: usize) {
    const MASKS: u64 = 1 << 5;
    let offset = crate::translate::xsave_layout().masks;
    // SAFETY: offsets within the image, as the processor reports them; only AVX-512 code puts masks aside.
    unsafe {
        let state = (*context).vector_state.as_mut_ptr();
        let components = state.add(XSTATE_BV).cast::<u64>();
        let mut present = components.read_unaligned();
        zero_if_absent(state, &mut present, MASKS, offset, 64);
        components.write_unaligned(present);
        state.add(offset + 8 * number).cast::<u64>().write_unaligned((*context).mask_spill);
    }
}

/// A component that is not present has its initial value, zero, whatever its bytes are.
///
/// # Safety
/// `offset..offset + length` lies in the image at `state`.
unsafe fn zero_if_absent(state: *mut u8, present: &mut u64, component: u64, offset: usize, length: usize) {
    if *present & component == 0 {
        // SAFETY: as the caller promises.
        unsafe { state.add(offset).write_bytes(0, length) };
        *present |= component;
    }
}

/// # Safety
/// `ucontext` is that of a signal that has interrupted one of the routines of `translate::lent`.
unsafe fn return_of_exchange(ucontext: *mut libc::ucontext_t) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (*ucontext).uc_mcontext.gregs[libc::REG_RCX as usize] as u64 }
}

/// # Safety
/// `ucontext` is valid.
unsafe fn instruction_pointer(ucontext: *mut libc::ucontext_t) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (*ucontext).uc_mcontext.gregs[libc::REG_RIP as usize] as u64 }
}

/// # Safety
/// `ucontext` is valid, and continuing at `pc` is sound.
unsafe fn set_instruction_pointer(ucontext: *mut libc::ucontext_t, pc: u64) {
    // SAFETY: as the caller promises.
    unsafe { (*ucontext).uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64 };
}
