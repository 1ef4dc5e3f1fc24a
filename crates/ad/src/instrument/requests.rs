//! Client requests: which number means what (numbers and arguments: `docs/client-requests.md`).

use derivgrind_engine::memory::user;

use super::{Mode, Thread};

/// Number of the first request: `'D' << 24 | 'G' << 16`. The others are told by their distance from it.
pub(crate) const BASE: u64 = 0x4447_0000;

macro_rules! numbers {
    ($($name:ident = $number:literal)*) => { $(pub(crate) const $name: u64 = $number;)* };
}

numbers! {
    GET_DOTVALUE = 0
    SET_DOTVALUE = 1
    DISABLE = 2
    GET_INDEX = 3
    SET_INDEX = 4
    NEW_INDEX = 5
    NEW_INDEX_NOACTIVITYANALYSIS = 6
    INDEX_TO_FILE = 7
    GET_MODE = 8
    GET_DOTVALUE_DIRECTION = 0x10
    SET_DOTVALUE_DIRECTION = 0x11
    GET_DIRECTIONS = 0x12
    DECLARE_ARRAY = 0x20
    START_RECORDING = 0x21
    FINISH_RECORDING = 0x22
    GET_SHADOW = 0x23
}

/// What answers a request.
pub(crate) type Handler = fn(&mut Thread<'_>, &[u64; 6]) -> Result<u64, user::Fault>;

/// A request of one mode. Those of other modes do nothing.
pub(crate) struct Request {
    /// Distance of its number from the first one.
    pub number: u64,
    /// Its name in messages.
    pub name: &'static str,
    /// What answers it.
    pub handler: Handler,
}

/// Answers a request. Those that are not ours get the default result.
pub(super) fn answer<M: Mode>(thread: &mut Thread<'_>, arguments: [u64; 6], default: u64) -> u64 {
    let number = arguments[0].wrapping_sub(BASE);
    if number == DISABLE {
        let previous = thread.disable(arguments[1], arguments[2]);
        let now = thread.fields().disabled != 0;
        M::disabled(thread, now);
        return previous;
    }
    let Some(request) = M::REQUESTS.iter().find(|request| request.number == number) else { return default };
    (request.handler)(thread, &arguments).unwrap_or_else(|fault| {
        derivgrind_engine::report(&format!(
            "client request {}: {fault}; the request is ignored. Does the program pass the address of a variable?",
            request.name
        ));
        default
    })
}
