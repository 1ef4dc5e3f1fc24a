//! Inputs and outputs declared by the array.

use derivgrind_engine::memory::user;
use derivgrind_tape::Record;

use crate::arrays::{Array, Block, Role};
use crate::instrument::{Thread, shadow_address};
use crate::ir::Format;
use crate::shadow::of_wide;

use super::requests::{index_of_variable, set_index_of_variable};
use super::state::TapeThread;
use super::tape;

/// `DECLARE_ARRAY(0 for inputs or 1 for outputs, address, number of elements, size of an element)`: returns the number of elements.
pub(super) fn declare_array(thread: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let Some(array) = Array::of_request(arguments) else { return Ok(0) };
    let format = if array.size == 4 { Format::Binary32 } else { Format::Binary64 };
    array.blocks(|block| {
        match array.role {
            Role::Inputs => {
                let indices: Vec<u64> =
                    block.elements().map(|(_, value)| thread.push(Record::input_with_value(value), format)).collect();
                place(thread, &block, &indices)?;
                tape().declare_inputs(&indices);
            }
            Role::Outputs => {
                let mut indices = Vec::with_capacity(block.elements().count());
                for (address, value) in block.elements() {
                    let index = index_of_variable(thread, address, block.size)?;
                    indices.push(thread.push(Record::output(index, value), Format::Binary64));
                }
                tape().declare_outputs(&indices);
            }
        }
        Ok(())
    })?;
    Ok(array.count())
}

/// Gives each element its index.
fn place(thread: &mut Thread<'_>, block: &Block<'_>, indices: &[u64]) -> Result<(), user::Fault> {
    if block.size == 8 {
        let tagged = indices.iter().map(|&index| of_wide(index));
        shadow_address::write(block.address, &tagged.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
        return Ok(());
    }
    for ((address, _), &index) in block.elements().zip(indices) {
        set_index_of_variable(thread, address, block.size, index)?;
    }
    Ok(())
}
