//! Intercepted math functions: dot values are sums of partial derivatives times dot values.

use derivgrind_engine::context::Context;

use crate::instrument::{lost_at, lost_in_call};
use crate::math::intercept::Differentiator;
use crate::math::{Bytes, Width};
use crate::x87::Extended;

use super::DotValues;
use super::x87::whole;

impl Differentiator for DotValues {
    /// The dot value as a binary64 number.
    fn operand(&self, context: &mut Context, width: Width, shadow: Bytes) -> Option<u64> {
        let dot = match width {
            Width::Extended => whole(Extended::from_bytes(shadow)).map_or_else(
                || {
                    lost_at(context.rip);
                    0.0
                },
                Extended::to_f64,
            ),
            _ => width.widen(shadow),
        };
        // Minus zero is zero, too.
        Some(if dot == 0.0 { 0 } else { dot.to_bits() })
    }

    fn result(&self, _: &mut Context, width: Width, terms: &[(u64, f64)]) -> Bytes {
        let dot = terms.iter().map(|&(dot, partial)| f64::from_bits(dot) * partial).fold(0.0, |sum, term| sum + term);
        let shadow = width.narrow(dot);
        // What rounds to zero is passive, whatever its sign is.
        if width.widen(shadow) == 0.0 { Bytes::default() } else { shadow }
    }

    fn interrupted(&self, address: u64) {
        lost_in_call(address);
    }
}
