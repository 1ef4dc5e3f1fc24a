//! Client requests of recording mode (numbers and arguments: `docs/client-requests.md`).

use derivgrind_engine::memory::{self, user};
use derivgrind_tape::{Operation, Record};

use crate::instrument::{Request, Thread, lost_at, requests, shadow_address};
use crate::ir::Format;
use crate::shadow::{narrow_index, of_narrow, of_wide};
use crate::x87::{self, Extended};

use super::state::TapeThread;
use super::x87::{index_of, of_index};
use super::{Recording, arrays, is_wide, restart, tape};

/// `GET_MODE`'s answer in recording mode.
const MODE: u64 = b'b' as u64;

/// The requests of recording mode.
pub(super) const REQUESTS: &[Request] = &[
    Request { number: requests::GET_INDEX, name: "GET_INDEX", handler: get_index },
    Request { number: requests::SET_INDEX, name: "SET_INDEX", handler: set_index },
    Request {
        number: requests::NEW_INDEX,
        name: "NEW_INDEX",
        handler: |thread, arguments| new_index(thread, arguments, false),
    },
    Request {
        number: requests::NEW_INDEX_NOACTIVITYANALYSIS,
        name: "NEW_INDEX_NOACTIVITYANALYSIS",
        handler: |thread, arguments| new_index(thread, arguments, true),
    },
    Request { number: requests::INDEX_TO_FILE, name: "INDEX_TO_FILE", handler: index_to_file },
    Request { number: requests::GET_MODE, name: "GET_MODE", handler: |_, _| Ok(MODE) },
    Request { number: requests::DECLARE_ARRAY, name: "DECLARE_ARRAY", handler: arrays::declare_array },
    Request { number: requests::START_RECORDING, name: "START_RECORDING", handler: restart::start },
    Request { number: requests::FINISH_RECORDING, name: "FINISH_RECORDING", handler: restart::finish },
    Request { number: requests::GET_SHADOW, name: "GET_SHADOW", handler: get_shadow },
];

/// `GET_INDEX(address of variable, address for the index)`
fn get_index(thread: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let [_, variable, index, size, ..] = *arguments;
    user::write(index, index_of_variable(thread, variable, size)?)?;
    memory::clear_shadow(index, 8);
    Ok(0)
}

/// `GET_SHADOW(address, address for the shadow)`: the four bytes beside four bytes of the program, whether they are an index or a part of one. Tests of the tool
/// see by it what a move does.
fn get_shadow(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let [_, bytes, to, ..] = *arguments;
    user::read::<u32>(bytes)?;
    let mut shadow = [0; 4];
    shadow_address::read(bytes, &mut shadow);
    user::write(to, u32::from_le_bytes(shadow))?;
    memory::clear_shadow(to, 4);
    Ok(0)
}

/// The index of the variable, whose size (0: unknown) tells its format.
pub(super) fn index_of_variable(thread: &mut Thread<'_>, variable: u64, size: u64) -> Result<u64, user::Fault> {
    if is_extended(size) { extended_index(thread, variable) } else { index_at(thread, variable, size) }
}

/// The same for a binary32 or binary64 variable.
fn index_at(thread: &mut Thread<'_>, variable: u64, size: u64) -> Result<u64, user::Fault> {
    user::read::<u32>(variable)?;
    let mut shadow = [0; 8];
    // A binary32 variable may be the last thing in its page: what is not mapped reads as zero.
    shadow_address::read(variable, &mut shadow);
    let shadow = u64::from_le_bytes(shadow);
    // Without its tag the upper half belongs to the next binary32 variable.
    let wide = size != 4 && is_wide(shadow);
    let index = if wide { thread.settle(shadow) } else { narrow_index(shadow & u64::from(u32::MAX)) };
    Ok(index.unwrap_or_else(|| {
        lost_at(thread.context().rip);
        0
    }))
}

/// Whether a variable of this size is a `long double`.
fn is_extended(size: u64) -> bool {
    matches!(size, 10 | 12 | 16)
}

/// The index of a `long double`.
fn extended_index(thread: &mut Thread<'_>, variable: u64) -> Result<u64, user::Fault> {
    user::read::<[u8; Extended::BYTES]>(variable)?;
    let (_, shadow) = x87::argument::<Recording>(thread, 0, variable);
    Ok(index_of(shadow))
}

/// `SET_INDEX(address of variable, address of the index)`
fn set_index(thread: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let [_, variable, index, size, ..] = *arguments;
    user::read::<u32>(variable)?;
    let index: u64 = user::read(index)?;
    let size = match size {
        0 if looks_extended(thread, variable, index) => Extended::BYTES as u64,
        0 if index > u64::from(u32::MAX) || looks_wide(thread, variable, index) => 8,
        0 => 4,
        size => size,
    };
    set_index_of_variable(thread, variable, size, index)?;
    Ok(0)
}

/// Gives a variable, whose size tells its format, an index.
pub(super) fn set_index_of_variable(
    thread: &mut Thread<'_>,
    variable: u64,
    size: u64,
    index: u64,
) -> Result<(), user::Fault> {
    if is_extended(size) {
        user::read::<[u8; Extended::BYTES]>(variable)?;
        x87::set_result::<Recording>(thread, 0, variable, of_index(index));
    } else if size >= 8 {
        user::read::<u64>(variable)?;
        shadow_address::write(variable, &of_wide(index).to_le_bytes());
    } else {
        shadow_address::write(variable, &(of_narrow(index) as u32).to_le_bytes());
    }
    Ok(())
}

/// Whether a variable of unknown size is binary64. Programs for the Valgrind-based tool do not say; but they set an index just after they have got it
/// from `NEW_INDEX`, and name the variable's value there.
fn looks_wide(thread: &mut Thread<'_>, variable: u64, index: u64) -> bool {
    let fields = thread.tape_fields();
    let (last_index, value) = (fields.last_index, f64::from_bits(fields.last_value));
    let Ok(narrow) = user::read::<u32>(variable).map(f32::from_bits) else { return false };
    let Ok(bits) = user::read::<u64>(variable) else { return false };
    if index != last_index || index == 0 {
        return false;
    }
    let (as_wide, as_narrow) = (bits == value.to_bits(), f64::from(narrow).to_bits() == value.to_bits());
    if !(as_wide && as_narrow) {
        return as_wide;
    }
    // Zero looks the same in both formats. A binary32 neighbour that has an index already must keep it.
    let mut neighbour = [0; 4];
    shadow_address::read(variable.wrapping_add(4), &mut neighbour);
    variable.is_multiple_of(8) && neighbour == [0; 4]
}

/// Whether a variable of unknown size is a `long double`: likewise. A number whose low eight bytes happen to be the same number as binary64 is one.
fn looks_extended(thread: &mut Thread<'_>, variable: u64, index: u64) -> bool {
    let fields = thread.tape_fields();
    let (last_index, value) = (fields.last_index, f64::from_bits(fields.last_value));
    let Ok(bytes) = user::read::<[u8; Extended::BYTES]>(variable) else { return false };
    let extended = Extended::from_bytes(bytes);
    // A normal number has its leading bit. Zero looks the same in all formats.
    index == last_index
        && index != 0
        && extended.significand >> 63 != 0
        && extended.to_f64().to_bits() == value.to_bits()
}

/// `NEW_INDEX(struct of pointers: index1, index2, diff1, diff2, new index, value)`
fn new_index(thread: &mut Thread<'_>, arguments: &[u64; 6], always: bool) -> Result<u64, user::Fault> {
    let pointers: [u64; 6] = user::read(arguments[1])?;
    let operands = [user::read::<u64>(pointers[0])?, user::read::<u64>(pointers[1])?];
    let partials = [user::read::<u64>(pointers[2])?, user::read::<u64>(pointers[3])?].map(f64::from_bits);
    let value = user::read::<u64>(pointers[5]).map(f64::from_bits).ok();
    let index = if operands == [0, 0] && !always {
        0
    } else {
        thread.push(record_for(operands, partials, value), Format::Binary64)
    };
    thread.tape_fields().last_index = index;
    thread.tape_fields().last_value = value.map_or(0, f64::to_bits);
    user::write(pointers[4], index)?;
    memory::clear_shadow(pointers[4], 8);
    Ok(0)
}

/// Inputs and outputs are told from other records, so that the tape knows their values.
fn record_for(operands: [u64; 2], partials: [f64; 2], value: Option<f64>) -> Record {
    match (operands, partials) {
        ([0, 0], _) => value.map_or(Record::input(), Record::input_with_value),
        ([operand, 0], [1.0, _]) => match value {
            Some(value) => Record::output(operand, value),
            None => Record::binary64(Operation::Copy, operands, partials),
        },
        _ => Record::binary64(Operation::Partials, operands, partials),
    }
}

/// `INDEX_TO_FILE(0 for inputs or 1 for outputs, address of the index)`
fn index_to_file(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let index: u64 = user::read(arguments[2])?;
    match arguments[1] {
        0 => tape().declare_input(index),
        1 => tape().declare_output(index),
        other => {
            derivgrind_engine::report(&format!(
                "client request INDEX_TO_FILE: no index file {other}; 0 is inputs, 1 outputs"
            ));
        }
    }
    Ok(0)
}
