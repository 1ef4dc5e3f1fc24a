//! The evaluator: propagates bar values from the outputs to the inputs, or dot values from the inputs to the outputs.
//!
//! A record `a_i = φ(a_j, a_k)` with partial derivatives `p`, `q` means
//! - reverse, from the end of the tape: `bar_j += p * bar_i`, `bar_k += q * bar_i`;
//! - forward, from its beginning: `dot_i = p * dot_j + q * dot_k`.
//!
//! **Zero times infinity.** A bar (dot) value of exactly zero propagates nothing, whatever the partial derivative is. A program that
//! computes `sqrt(0)` without its result having an influence on the output thus does not get NaN for all inputs on the way: zero means
//! that there is no dependence, and an infinite sensitivity of a value that is not used is no sensitivity. An infinite bar value that
//! meets a zero partial derivative does give NaN: that derivative is undefined.
//!
//! Several seed vectors are evaluated in one pass, each in a lane of its own; the result does not depend on how many there are.

use std::cell::RefCell;

use crate::adjoint::Adjoint;
use crate::error::{Result, TapeError};
use crate::propagate;
use crate::reader::Tape;
use crate::run::Run;
use crate::stream::Direction;
use crate::values;

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records processed, in all passes.
    pub done: u64,
    /// Records to be processed, in all passes.
    pub total: u64,
}

/// A sweep over a tape that is about to be made; see [`Tape::sweep`].
pub struct Sweep<'a> {
    tape: &'a Tape,
    decoders: usize,
    progress: RefCell<Option<Report<'a>>>,
}

/// Whom to tell about progress.
type Report<'a> = Box<dyn FnMut(Progress) + 'a>;

impl Tape {
    /// A sweep with options.
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep { tape: self, decoders: Tape::default_decoders(), progress: RefCell::new(None) }
    }

    /// Reverse mode: for each vector of bar values of the outputs the bar values of the inputs, both in the order of declaration.
    ///
    /// With bar values `w` the result is `wᵀ J` for the Jacobian `J` of the outputs with respect to the inputs.
    ///
    /// # Errors
    /// [`TapeError::Seeds`] if a vector does not have a value for each output, [`TapeError::Incomplete`], and whatever is wrong with
    /// the tape's content.
    pub fn reverse(&self, output_bars: &[impl AsRef<[f64]>]) -> Result<Vec<Vec<f64>>> {
        self.sweep().reverse(output_bars)
    }

    /// Forward mode: for each vector of dot values of the inputs the dot values of the outputs, both in the order of declaration.
    ///
    /// With dot values `v` the result is `J v` for the Jacobian `J` of the outputs with respect to the inputs.
    ///
    /// # Errors
    /// As for [`reverse`](Self::reverse).
    pub fn forward(&self, input_dots: &[impl AsRef<[f64]>]) -> Result<Vec<Vec<f64>>> {
        self.sweep().forward(input_dots)
    }
}

/// The greatest number of seed vectors in one pass.
const MOST_LANES: usize = 8;

/// Bar values that are no longer needed are given back to the system when they take so much memory.
const RELEASE_BYTES: usize = 16 << 20;

impl<'a> Sweep<'a> {
    /// Calls `report` from time to time (after each of the tape's blocks).
    pub fn progress(self, report: impl FnMut(Progress) + 'a) -> Sweep<'a> {
        Sweep { progress: RefCell::new(Some(Box::new(report))), ..self }
    }

    /// How many threads decode the tape ahead of the sweep; with 0, the sweep does it itself.
    pub fn decoders(self, decoders: usize) -> Sweep<'a> {
        Sweep { decoders, ..self }
    }

    /// See [`Tape::reverse`].
    ///
    /// # Errors
    /// See [`Tape::reverse`].
    pub fn reverse(&self, output_bars: &[impl AsRef<[f64]>]) -> Result<Vec<Vec<f64>>> {
        self.check_seeds(output_bars, self.tape.outputs.len(), "bar values", "outputs")?;
        self.passes(output_bars, |seeds, done, results| match seeds.len() {
            1 => self.reverse_pass::<1>(seeds, done, results),
            2 => self.reverse_pass::<2>(seeds, done, results),
            3..=4 => self.reverse_pass::<4>(seeds, done, results),
            _ => self.reverse_pass::<MOST_LANES>(seeds, done, results),
        })
    }

    /// See [`Tape::forward`].
    ///
    /// # Errors
    /// See [`Tape::forward`].
    pub fn forward(&self, input_dots: &[impl AsRef<[f64]>]) -> Result<Vec<Vec<f64>>> {
        self.check_seeds(input_dots, self.tape.inputs.len(), "dot values", "inputs")?;
        if self.tape.records() < self.tape.index_limit {
            // What uses an index that is not on the tape must not look as if it did not depend on anything. The reverse sweep notices
            // that on its way.
            self.tape.validate()?;
        }
        self.passes(input_dots, |seeds, done, results| match seeds.len() {
            1 => self.forward_pass::<1>(seeds, done, results),
            2 => self.forward_pass::<2>(seeds, done, results),
            3..=4 => self.forward_pass::<4>(seeds, done, results),
            _ => self.forward_pass::<MOST_LANES>(seeds, done, results),
        })
    }

    fn check_seeds(
        &self,
        seeds: &[impl AsRef<[f64]>],
        expected: usize,
        values: &'static str,
        variables: &'static str,
    ) -> Result<()> {
        self.tape.require_complete()?;
        match seeds.iter().map(|seed| seed.as_ref().len()).find(|found| *found != expected) {
            Some(found) => Err(TapeError::Seeds { values, variables, found, expected }),
            None => Ok(()),
        }
    }

    /// Divides the seed vectors into passes.
    fn passes(
        &self,
        seeds: &[impl AsRef<[f64]>],
        mut pass: impl FnMut(&[&[f64]], Progress, &mut Vec<Vec<f64>>) -> Result<()>,
    ) -> Result<Vec<Vec<f64>>> {
        let seeds: Vec<&[f64]> = seeds.iter().map(AsRef::as_ref).collect();
        let records = self.tape.records();
        let passes = seeds.len().div_ceil(MOST_LANES) as u64;
        let mut results = Vec::with_capacity(seeds.len());
        for (number, group) in (0..).zip(seeds.chunks(MOST_LANES)) {
            pass(group, Progress { done: number * records, total: passes * records }, &mut results)?;
        }
        Ok(results)
    }

    fn report(&self, progress: &mut Progress, records: u32) {
        progress.done += u64::from(records);
        if let Some(report) = self.progress.borrow_mut().as_mut() {
            report(*progress);
        }
    }

    fn reverse_pass<const LANES: usize>(
        &self,
        seeds: &[&[f64]],
        mut progress: Progress,
        results: &mut Vec<Vec<f64>>,
    ) -> Result<()> {
        let tape = self.tape;
        let mut bars = Adjoint::<LANES>::new(tape.index_limit)?;
        scatter(bars.values(), &tape.outputs, seeds);

        // A bar value is final when the sweep arrives at its index; inputs' are put aside then, and the memory given back.
        let mut waiting: Vec<usize> = (0..tape.inputs.len()).collect();
        waiting.sort_by_key(|position| tape.inputs[*position]);
        let mut input_bars = vec![[0.0; LANES]; tape.inputs.len()];
        let mut collect = |bars: &[[f64; LANES]], from: u64| {
            while let Some(position) = waiting.pop_if(|position| tape.inputs[*position] >= from) {
                let index = tape.inputs[position];
                input_bars[position] = if index == 0 { [0.0; LANES] } else { bars[index as usize] };
            }
        };
        let mut processed = tape.index_limit;
        let mut released = tape.index_limit as usize;
        tape.stream(Direction::Backward, self.decoders, |block, run: &Run| {
            let first_index = block.first_index;
            let values = bars.values();
            let missing = &values[block.index_limit() as usize..processed as usize];
            if missing.iter().any(|bar| *bar != [0.0; LANES]) {
                return Err(tape.missing_index());
            }
            propagate::bars(values, run);
            collect(values, first_index);
            processed = first_index;
            if released - first_index as usize > RELEASE_BYTES / size_of::<[f64; LANES]>() {
                released = bars.release(first_index as usize, released);
            }
            self.report(&mut progress, block.records);
            Ok(true)
        })?;
        collect(bars.values(), 0);
        gather(results, seeds.len(), &input_bars);
        Ok(())
    }

    fn forward_pass<const LANES: usize>(
        &self,
        seeds: &[&[f64]],
        mut progress: Progress,
        results: &mut Vec<Vec<f64>>,
    ) -> Result<()> {
        let tape = self.tape;
        let mut dots = Adjoint::<LANES>::new(tape.index_limit)?;
        let values = dots.values();
        scatter(values, &tape.inputs, seeds);
        tape.stream(Direction::Forward, self.decoders, |block, run: &Run| {
            propagate::dots(values, run);
            self.report(&mut progress, block.records);
            Ok(true)
        })?;
        let output_dots: Vec<[f64; LANES]> = tape.outputs.iter().map(|index| values[*index as usize]).collect();
        gather(results, seeds.len(), &output_dots);
        Ok(())
    }
}

/// Adds each seed vector's values to those of the indices, in its lane. Passive variables take no seed.
fn scatter<const LANES: usize>(values: &mut [[f64; LANES]], indices: &[u64], seeds: &[&[f64]]) {
    for (lane, seed) in seeds.iter().enumerate() {
        for (index, value) in indices.iter().zip(*seed).filter(|(index, _)| **index != 0) {
            values[*index as usize][lane] += value;
        }
    }
}

/// Appends the first `count` lanes as vectors.
fn gather<const LANES: usize>(results: &mut Vec<Vec<f64>>, count: usize, values: &[[f64; LANES]]) {
    results.extend((0..count).map(|lane| values.iter().map(|value| value[lane]).collect()));
}

impl Sweep<'_> {
    /// Reverse mode with the text files of the recording: reads `dg-output-bars`, writes `dg-input-bars` and returns what it has
    /// written.
    ///
    /// # Errors
    /// As for [`Tape::reverse`], and errors in the files.
    pub fn reverse_files(&self) -> Result<Vec<f64>> {
        let tape = self.tape;
        tape.require_complete()?;
        let bars = values::read(&tape.file("dg-output-bars"), tape.outputs.len(), "bar value", "outputs")?;
        let result = self.reverse(&[bars])?.swap_remove(0);
        values::write(&tape.file("dg-input-bars"), &result)?;
        Ok(result)
    }

    /// Forward mode with the text files of the recording: reads `dg-input-dots`, writes `dg-output-dots` and returns what it has
    /// written.
    ///
    /// # Errors
    /// As for [`Tape::forward`], and errors in the files.
    pub fn forward_files(&self) -> Result<Vec<f64>> {
        let tape = self.tape;
        tape.require_complete()?;
        let dots = values::read(&tape.file("dg-input-dots"), tape.inputs.len(), "dot value", "inputs")?;
        let result = self.forward(&[dots])?.swap_remove(0);
        values::write(&tape.file("dg-output-dots"), &result)?;
        Ok(result)
    }
}
