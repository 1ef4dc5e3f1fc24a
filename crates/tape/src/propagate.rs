//! The inner loops of the evaluator: bar values backwards, dot values forwards, through one block.

use crate::decode::Partials;
use crate::run::{Content, Run};

/// `p * x`, and 0 if `x` is 0; see [`crate::evaluate`].
#[inline(always)]
fn contribution(partial: f64, value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { partial * value }
}

/// Adds an operation's contribution to an operand's bar values.
#[inline(always)]
fn update<const LANES: usize>(target: &mut [f64; LANES], partial: f64, bar: [f64; LANES]) {
    for lane in 0..LANES {
        target[lane] += contribution(partial, bar[lane]);
    }
}

/// Defines a sweep through a block that uses AVX2 where the processor has it: a vector of four lanes in one instruction. (Products
/// and sums are rounded the same way in either case.)
macro_rules! sweep {
    ($(#[$doc:meta])* $name:ident, $generic:ident, $avx2:ident) => {
        $(#[$doc])*
        pub(crate) fn $name<const LANES: usize>(values: &mut [[f64; LANES]], run: &Run) {
            if LANES >= 4 && std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has what the function is compiled for.
                unsafe { $avx2(values, run) }
            } else {
                $generic(values, run);
            }
        }

        #[target_feature(enable = "avx2")]
        fn $avx2<const LANES: usize>(values: &mut [[f64; LANES]], run: &Run) {
            $generic(values, run);
        }
    };
}

sweep! {
    /// Reverse mode.
    bars, bars_generic, bars_avx2
}

sweep! {
    /// Forward mode. The seeds of inputs are in place.
    dots, dots_generic, dots_avx2
}

#[inline(always)]
fn bars_generic<const LANES: usize>(bars: &mut [[f64; LANES]], run: &Run) {
    for part in run.parts.iter().rev() {
        let first_index = run.first_index as usize + part.position;
        match &part.content {
            Content::Records(records) => bars_of_records(bars, first_index, &run.records[records.clone()]),
            Content::Loop { rows, columns } => {
                let columns = &run.columns[columns.clone()];
                for row in (0..*rows).rev() {
                    let first_index = first_index + row * columns.len();
                    for (number, column) in columns.iter().enumerate().rev() {
                        let index = first_index + number;
                        let bar = bars[index];
                        if bar == [0.0; LANES] {
                            continue;
                        }
                        let partials = column.partials(&run.memory, row);
                        for (operand, partial) in column.operands(row).into_iter().zip(partials) {
                            if operand != 0 {
                                update(&mut bars[operand as usize], partial, bar);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn bars_of_records<const LANES: usize>(bars: &mut [[f64; LANES]], first_index: usize, records: &[Partials]) {
    for (position, record) in records.iter().enumerate().rev() {
        let bar = bars[first_index + position];
        if bar == [0.0; LANES] {
            continue;
        }
        for (operand, partial) in record.operands.into_iter().zip(record.partials) {
            if operand != 0 {
                update(&mut bars[operand as usize], partial, bar);
            }
        }
    }
}

#[inline(always)]
fn dots_generic<const LANES: usize>(dots: &mut [[f64; LANES]], run: &Run) {
    for part in &run.parts {
        let first_index = run.first_index as usize + part.position;
        match &part.content {
            Content::Records(records) => dots_of_records(dots, first_index, &run.records[records.clone()]),
            Content::Loop { rows, columns } => {
                let columns = &run.columns[columns.clone()];
                for row in 0..*rows {
                    let first_index = first_index + row * columns.len();
                    for (number, column) in columns.iter().enumerate() {
                        let index = first_index + number;
                        let partials = column.partials(&run.memory, row);
                        let mut dot = dots[index];
                        for (operand, partial) in column.operands(row).into_iter().zip(partials) {
                            if operand != 0 {
                                update(&mut dot, partial, dots[operand as usize]);
                            }
                        }
                        dots[index] = dot;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dots_of_records<const LANES: usize>(dots: &mut [[f64; LANES]], first_index: usize, records: &[Partials]) {
    for (position, record) in records.iter().enumerate() {
        let mut dot = dots[first_index + position];
        for (operand, partial) in record.operands.into_iter().zip(record.partials) {
            if operand != 0 {
                update(&mut dot, partial, dots[operand as usize]);
            }
        }
        dots[first_index + position] = dot;
    }
}
