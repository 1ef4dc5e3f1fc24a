//! The tool that does nothing: measures and tests the engine alone.

use super::{Block, Emitter};
use crate::context::Context;
use crate::tool::{Tool, Version};

/// Runs the program under the engine without any instrumentation.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullTool;

impl Tool for NullTool {
    fn shadow_layers(&self) -> u32 {
        0
    }

    fn initial_version(&self) -> Version {
        Version(0)
    }

    fn instrument(&self, block: &Block, _version: Version, emitter: &mut Emitter<'_>) {
        for index in 0..block.body_len() {
            emitter.copy(index);
        }
    }

    fn client_request(&self, _context: &mut Context, _arguments: [u64; 6], default: u64) -> u64 {
        default
    }
}
