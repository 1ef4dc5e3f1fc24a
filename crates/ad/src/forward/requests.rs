//! Client requests of forward mode (numbers and arguments: `docs/client-requests.md`).

use std::sync::atomic::{AtomicBool, Ordering};

use derivgrind_engine::memory::{self, user};
use derivgrind_engine::report;

use crate::declared::{self, Handle};
use crate::instrument::{MOST_LAYERS, Request, Thread, layers, lost_in_pieces, requests, shadow_address};
use crate::x87::Extended;

use super::x87::whole;

/// `GET_MODE`'s answer in forward mode.
const MODE: u64 = b'd' as u64;

/// The requests of forward mode. Those about indices do nothing, unless declared variables are followed ([`crate::declared`]).
pub(super) const REQUESTS: &[Request] = &[
    Request {
        number: requests::GET_DOTVALUE,
        name: "GET_DOTVALUE",
        handler: |_, &[_, variable, target, size, ..]| get_dot_value("GET_DOTVALUE", variable, target, size, 0),
    },
    Request {
        number: requests::SET_DOTVALUE,
        name: "SET_DOTVALUE",
        handler: |_, &[_, variable, source, size, ..]| set_dot_value("SET_DOTVALUE", variable, source, size, 0),
    },
    Request {
        number: requests::GET_DOTVALUE_DIRECTION,
        name: "GET_DOTVALUE_DIRECTION",
        handler: |_, &[_, variable, target, size, direction, _]| {
            get_dot_value("GET_DOTVALUE_DIRECTION", variable, target, size, direction)
        },
    },
    Request {
        number: requests::SET_DOTVALUE_DIRECTION,
        name: "SET_DOTVALUE_DIRECTION",
        handler: |_, &[_, variable, source, size, direction, _]| {
            set_dot_value("SET_DOTVALUE_DIRECTION", variable, source, size, direction)
        },
    },
    Request { number: requests::GET_DIRECTIONS, name: "GET_DIRECTIONS", handler: |_, _| Ok(layers().len() as u64) },
    Request { number: requests::GET_INDEX, name: "GET_INDEX", handler: get_index },
    Request { number: requests::SET_INDEX, name: "SET_INDEX", handler: set_index },
    Request {
        number: requests::NEW_INDEX,
        name: "NEW_INDEX",
        handler: |_, arguments| declared::new_index(arguments, false),
    },
    Request {
        number: requests::NEW_INDEX_NOACTIVITYANALYSIS,
        name: "NEW_INDEX_NOACTIVITYANALYSIS",
        handler: |_, arguments| declared::new_index(arguments, true),
    },
    Request { number: requests::INDEX_TO_FILE, name: "INDEX_TO_FILE", handler: index_to_file },
    Request { number: requests::GET_MODE, name: "GET_MODE", handler: |_, _| Ok(MODE) },
    Request { number: requests::DECLARE_ARRAY, name: "DECLARE_ARRAY", handler: declare_array },
];

/// `GET_DOTVALUE_DIRECTION(address of variable, address for the dot value, size, direction)`
fn get_dot_value(name: &str, variable: u64, target: u64, size: u64, direction: u64) -> Result<u64, user::Fault> {
    let Some(layer) = layer_of(name, direction) else { return Ok(0) };
    match size {
        4 => user::write(target, dot_bits(layer, variable, 4)? as u32)?,
        8 => user::write(target, dot_bits(layer, variable, 8)?)?,
        10 | 12 | 16 => user::write(target, extended_dot(layer, variable)?.to_bytes())?,
        _ => {
            unknown_size(name, size);
            return Ok(0);
        }
    }
    memory::clear_shadow(target, size);
    Ok(0)
}

/// `SET_DOTVALUE_DIRECTION(address of variable, address of the dot value, size, direction)`
fn set_dot_value(name: &str, variable: u64, source: u64, size: u64, direction: u64) -> Result<u64, user::Fault> {
    let Some(layer) = layer_of(name, direction) else { return Ok(0) };
    match size {
        4 => {
            user::read::<u32>(variable)?;
            // Minus zero is passive.
            let dot = f32::from_bits(user::read::<u32>(source)?) + 0.0;
            shadow_address::write_layer(layer, variable, &dot.to_bits().to_le_bytes());
        }
        8 => {
            user::read::<u64>(variable)?;
            let dot = f64::from_bits(user::read::<u64>(source)?) + 0.0;
            shadow_address::write_layer(layer, variable, &dot.to_bits().to_le_bytes());
        }
        10 | 12 | 16 => {
            user::read::<[u8; Extended::BYTES]>(variable)?;
            let dot = Extended::from_bytes(user::read(source)?);
            let dot = if dot.is_zero() { Extended::ZERO } else { dot };
            shadow_address::write_layer(layer, variable, &dot.to_bytes());
        }
        _ => unknown_size(name, size),
    }
    Ok(0)
}

/// The shadow layer of a direction.
fn layer_of(name: &str, direction: u64) -> Option<usize> {
    let layer = usize::try_from(direction).ok().filter(|layer| layers().contains(layer));
    if layer.is_none() {
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !TOLD.swap(true, Ordering::Relaxed) {
            let count = layers().len();
            report(&format!(
                "client request {name}: there is no direction {direction}, they are numbered from 0 and there {}; the request is ignored. \
                 Start the program with `--directions=N`, N up to {MOST_LAYERS}",
                if count == 1 { "is 1".to_owned() } else { format!("are {count}") },
            ));
        }
    }
    layer
}

fn unknown_size(name: &str, size: u64) {
    report(&format!(
        "client request {name}: a real variable has 4, 8, 10, 12 or 16 bytes, not {size}; the request is ignored"
    ));
}

/// The dot value in the shadow of a `long double`.
fn extended_dot(layer: usize, variable: u64) -> Result<Extended, user::Fault> {
    user::read::<[u8; Extended::BYTES]>(variable)?;
    let mut bytes = [0; Extended::BYTES];
    shadow_address::read_layer(layer, variable, &mut bytes);
    Ok(whole(Extended::from_bytes(bytes)).unwrap_or_else(|| {
        lost_in_pieces(1);
        Extended::ZERO
    }))
}

/// The dot value in the shadow of a variable of 4 or 8 bytes.
fn dot_bits(layer: usize, variable: u64, size: u64) -> Result<u64, user::Fault> {
    let mut bytes = [0; 8];
    if size == 4 {
        user::read::<u32>(variable)?;
        shadow_address::read_layer(layer, variable, &mut bytes[..4]);
    } else {
        user::read::<u64>(variable)?;
        shadow_address::read_layer(layer, variable, &mut bytes);
    }
    Ok(u64::from_le_bytes(bytes))
}

/// `GET_INDEX(address of variable, address for the index, size of variable)`
fn get_index(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let [_, variable, index, size, ..] = *arguments;
    if !declared::is_followed() {
        return Ok(0);
    }
    user::write(index, declared::handle_of(dots_of(variable, size)?))?;
    memory::clear_shadow(index, 8);
    Ok(0)
}

/// `SET_INDEX(address of variable, address of the index, size of variable)`
fn set_index(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    if let Some(variable) = declared::set_index(arguments)? {
        set_dot(variable);
    }
    Ok(0)
}

/// `INDEX_TO_FILE(0 for inputs or 1 for outputs, address of the index)`
fn index_to_file(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    if let Some(variable) = declared::declare(arguments)? {
        set_dot(variable);
    }
    Ok(0)
}

/// `DECLARE_ARRAY(0 for inputs or 1 for outputs, address, number of elements, size of an element)`
fn declare_array(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let give = |variable| {
        set_dot(variable);
        Ok(())
    };
    declared::declare_array(arguments, give, dots_of)
}

/// The dot values of a variable as binary64.
fn dots_of(variable: u64, size: u64) -> Result<declared::Dots, user::Fault> {
    let mut dots = declared::PASSIVE;
    for layer in layers() {
        dots[layer] = match size {
            4 => f64::from(f32::from_bits(dot_bits(layer, variable, 4)? as u32)),
            10 | 12 | 16 => extended_dot(layer, variable)?.to_f64(),
            _ => f64::from_bits(dot_bits(layer, variable, 8)?),
        };
    }
    Ok(dots)
}

/// Gives a variable the dot values of its handle.
fn set_dot(Handle { address, size, dots }: Handle) {
    for (layer, dot) in layers().zip(dots) {
        match size {
            4 => shadow_address::write_layer(layer, address, &(dot as f32).to_bits().to_le_bytes()),
            8 => shadow_address::write_layer(layer, address, &dot.to_bits().to_le_bytes()),
            _ => shadow_address::write_layer(layer, address, &Extended::from_f64(dot).to_bytes()),
        }
    }
}
