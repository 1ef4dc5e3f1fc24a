//! A tool without derivatives: declared inputs are changed at their declaration, values of declared outputs are collected.
//!
//! Two such runs make a difference quotient.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::tool::{Tool, Version};
use derivgrind_engine::translate::{Block, Emitter};
use derivgrind_engine::{NullTool, report};

use crate::declared::{self, Declared, Handle};
use crate::instrument::requests;
use crate::x87::{Extended, Session};

/// Adds the seed of each declared input to its value.
pub struct Perturbed(());

impl Perturbed {
    /// There can be one in a process.
    pub fn new(declared: Declared) -> Perturbed {
        declared::install(declared);
        Perturbed(())
    }
}

impl Tool for Perturbed {
    fn shadow_layers(&self) -> u32 {
        0
    }

    fn initial_version(&self) -> Version {
        NullTool.initial_version()
    }

    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>) {
        NullTool.instrument(block, version, emitter);
    }

    fn client_request(&self, _: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        answer(&arguments).unwrap_or_else(|fault| {
            report(&format!("client request {:#x}: {fault}; the request is ignored", arguments[0]));
            default
        })
    }

    fn lock_for_fork(&self) -> Box<dyn std::any::Any> {
        Box::new(declared::lock_for_fork())
    }

    fn fork_child(&self, _: &mut Context) {
        declared::forget();
    }

    fn process_exit(&self, _: &mut Context) {
        declared::finish();
    }
}

/// As while recording, so that the program takes the same way: `GET_MODE` has the same answer.
fn answer(arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    match arguments[0].wrapping_sub(requests::BASE) {
        requests::GET_INDEX => user::write(arguments[2], 0u64)?,
        requests::SET_INDEX => drop(declared::set_index(arguments)?),
        requests::NEW_INDEX => drop(declared::new_index(arguments, false)?),
        requests::NEW_INDEX_NOACTIVITYANALYSIS => drop(declared::new_index(arguments, true)?),
        requests::INDEX_TO_FILE => {
            if let Some(variable) = declared::declare(arguments)? {
                perturb(variable)?;
            }
        }
        requests::DECLARE_ARRAY => return declared::declare_array(arguments, perturb, |_, _| Ok(declared::PASSIVE)),
        requests::GET_MODE => return Ok(u64::from(b'b')),
        _ => {}
    }
    Ok(0)
}

fn perturb(Handle { address, size, dots: [summand, ..] }: Handle) -> Result<(), user::Fault> {
    match size {
        4 => {
            let value = f32::from_bits(user::read(address)?);
            user::write(address, (value + summand as f32).to_bits())
        }
        8 => {
            let value = f64::from_bits(user::read(address)?);
            user::write(address, (value + summand).to_bits())
        }
        _ => {
            let value = Extended::from_bytes(user::read(address)?);
            let sum = Session::begin().add(value, Extended::from_f64(summand));
            user::write(address, sum.to_bytes())
        }
    }
}
