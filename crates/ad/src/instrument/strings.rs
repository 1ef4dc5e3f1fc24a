//! Repeated string instructions: their shadow is moved or cleared by the same instruction, further on by the distance of each layer.

use derivgrind_engine::memory::SHADOW_STRIDE;
use derivgrind_engine::translate::Emitter;
use iced_x86::{MemoryOperand, Register};

use super::layout::layers;

/// `rep movs`: the shadow is moved like the data.
pub(super) fn repeated_move(emitter: &mut Emitter<'_>, index: usize) {
    run_on_shadow(emitter, index, &[Register::RSI, Register::RDI], false);
}

/// `rep stos`, or `rep movs` of passive data: the shadow of the destination is cleared.
pub(super) fn repeated_clear(emitter: &mut Emitter<'_>, index: usize) {
    run_on_shadow(emitter, index, &[Register::RDI], true);
}

/// Runs a repeated instruction with the given address registers moved to the shadow, and brings the registers back, for each layer. Flags stay as
/// they are.
fn run_on_shadow(emitter: &mut Emitter<'_>, index: usize, addresses: &[Register], clear: bool) {
    for layer in layers() {
        run_on_layer(emitter, index, addresses, clear, (layer as u64 + 1) * SHADOW_STRIDE);
    }
    // RAX may have been one of the registers that hold them.
    emitter.load_distances();
}

fn run_on_layer(emitter: &mut Emitter<'_>, index: usize, addresses: &[Register], clear: bool, distance: u64) {
    let instruction = emitter.block().instructions()[index];
    let changed: Vec<Register> = addresses.iter().copied().chain([Register::RCX, Register::RAX]).collect();
    // RAX may be a scratch register already.
    let changed: Vec<Register> = changed.into_iter().filter(|&register| !emitter.is_scratch(register)).collect();
    for &register in &changed {
        emitter.put_aside(register);
    }
    emitter.asm().constant(Register::RAX, distance);
    for &register in addresses {
        let moved = MemoryOperand::new(register, Register::RAX, 1, 0, 0, false, Register::None);
        emitter.asm().lea(register, moved);
    }
    if clear {
        emitter.asm().constant(Register::RAX, 0);
        emitter.asm().bytes(stores_like(&instruction));
    } else {
        let bytes = emitter.block().bytes(index).to_vec();
        emitter.asm().bytes(&bytes);
    }
    for &register in &changed {
        emitter.bring_back(register);
    }
}

/// `rep stos` with the element size of the given string instruction.
fn stores_like(instruction: &iced_x86::Instruction) -> &'static [u8] {
    use iced_x86::Mnemonic::*;
    match instruction.mnemonic() {
        Movsb | Stosb => &[0xf3, 0xaa],
        Movsw | Stosw => &[0x66, 0xf3, 0xab],
        Movsd | Stosd => &[0xf3, 0xab],
        _ => &[0xf3, 0x48, 0xab],
    }
}
