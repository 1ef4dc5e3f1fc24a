//! Intercepted math functions: dot values are sums of partial derivatives times dot values.

use derivgrind_engine::context::Context;

use crate::instrument::lost_in_call;
use crate::math::Width;
use crate::math::intercept::Differentiator;

use super::DotValues;

impl Differentiator for DotValues {
    fn operand(&self, width: Width, shadow: u64) -> u64 {
        let bits = match width {
            Width::Binary32 => shadow & u64::from(u32::MAX),
            Width::Binary64 => shadow,
        };
        // Minus zero is zero, too.
        if width.widen(bits) == 0.0 { 0 } else { bits }
    }

    fn result(&self, _: &mut Context, width: Width, terms: &[(u64, f64)]) -> u64 {
        let dot = terms.iter().map(|&(dot, partial)| width.widen(dot) * partial).fold(0.0, |sum, term| sum + term);
        match width {
            Width::Binary32 => u64::from((dot as f32).to_bits()),
            Width::Binary64 => dot.to_bits(),
        }
    }

    fn interrupted(&self, address: u64) {
        lost_in_call(address);
    }
}
