//! What is checked of each formula.

use std::sync::Arc;

use anyhow::{Context as _, Result};

use super::Formula;
use super::combination::{Combination, Derivatives, InDirections};
use crate::numbers::{close, dot, magnitude};
use crate::suite::{Outcome, Suite, fail};
use crate::{full, process, recording};

/// A five-point difference quotient with steps of 2^-10 has a truncation error of f⁗' h⁴/30, below 1e-8 for each formula.
const DIFFERENCE_TOLERANCE: f64 = 1e-7;
/// Step of the difference quotient: with inputs of few bits the perturbed ones and their squares still are binary32 numbers.
const STEP: f64 = 1.0 / 1024.0;

/// Adds the cases of a combination: derivatives of a recording in both directions, and in forward mode.
pub fn compare(suite: &mut Suite, combination: &Arc<Combination>) {
    for (index, formula) in combination.formulas.iter().enumerate() {
        let [recorded, forward, several] = [(); 3].map(|()| Arc::clone(combination));
        suite.case(format!("{}/{}", combination.name(), formula.name), move || derivatives(&recorded, index));
        suite.case(format!("forward/{}/{}", combination.name(), formula.name), move || forward_mode(&forward, index));
        let name = format!("directions/{}/{}", combination.name(), formula.name);
        suite.case(name, move || several_directions(&several, index));
    }
}

/// In the short form `derivgrind check`, which runs each program many times, is tried on every so many formulas.
const CHECKED: usize = 4;

/// Adds cases of a table itself: its gradients against difference quotients of the native program, and what `derivgrind check` says.
pub fn check_table(suite: &mut Suite, combination: &Arc<Combination>, prefix: &str) {
    for (index, formula) in combination.formulas.iter().enumerate().filter(|(_, formula)| formula.differentiates) {
        let (native, check) = (Arc::clone(combination), Arc::clone(combination));
        suite.case(format!("table/{prefix}{}", formula.name), move || difference_quotient(&native, index));
        if full() || index % CHECKED == 0 {
            suite.case(format!("check/{prefix}{}", formula.name), move || checked(&check, index));
        }
    }
}

/// The case of forward mode: output as natively, dot value as in a forward sweep over the tape and as in the table.
fn forward_mode(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let InDirections { line, dots } = combination.in_forward_mode(built, index)?;
    let dot_value = dots[0].1;
    if !combination.same_output(&line, &built.output[index]) {
        return fail(format!("printed {line:?}, natively {:?}", built.output[index]));
    }
    let recorded = combination.derivatives(built, index)?;
    let gradient = (formula.gradient)(formula.inputs);
    let scale = magnitude(&gradient) * magnitude(&recorded.dots);
    let expected = dot(&gradient, &recorded.dots);
    if !close(dot_value, expected, scale, combination.tolerance(formula)) {
        return fail(format!("the output's dot value is {dot_value:e}, expected {expected:e}"));
    }
    if !close(dot_value, recorded.dot, scale, combination.sweep_tolerance(formula)) {
        return fail(format!(
            "the output's dot value is {dot_value:e}, in a forward sweep over the tape {:e}",
            recorded.dot
        ));
    }
    Ok(())
}

/// The case of several directions in one run: in each the dot value is that of the table, and in the first one that of a run with one direction.
fn several_directions(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let InDirections { line, dots } = combination.in_several_directions(built, index)?;
    if !combination.same_output(&line, &built.output[index]) {
        return fail(format!("printed {line:?}, natively {:?}", built.output[index]));
    }
    let gradient = (formula.gradient)(formula.inputs);
    for (direction, (input_dots, dot_value)) in dots.iter().enumerate() {
        let scale = magnitude(&gradient) * magnitude(input_dots);
        let expected = dot(&gradient, input_dots);
        if !close(*dot_value, expected, scale, combination.tolerance(formula)) {
            return fail(format!("in direction {direction} the dot value is {dot_value:e}, expected {expected:e}"));
        }
    }
    // If all formulas together do not run in one of the two ways, they have other input dots there.
    let alone = combination.in_forward_mode(built, index)?.dots.swap_remove(0);
    if alone.0 == dots[0].0 && alone.1 != dots[0].1 {
        return fail(format!("in the first direction the dot value is {:e}, alone {:e}", dots[0].1, alone.1));
    }
    Ok(())
}

/// The case: output as natively, gradient as in the table in both directions.
///
/// A reverse sweep over the common recording blames the formula whose input received a contribution; the one that made it shows by its
/// forward sweep. So if the forward sweep is right and the reverse sweep is not, the formula's own recording decides.
fn derivatives(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let found = combination.derivatives(built, index)?;
    if !combination.same_output(&found.line, &built.output[index]) {
        return fail(format!("printed {:?}, natively {:?}", found.line, built.output[index]));
    }
    let tolerance = combination.tolerance(formula);
    check_forward(formula, &found, tolerance)?;
    if check_reverse(formula, &found, tolerance).is_ok() {
        return Ok(());
    }
    let alone = combination.alone(built, index)?;
    check_forward(formula, &alone, tolerance)?;
    check_reverse(formula, &alone, tolerance)
}

fn check_forward(formula: &Formula, found: &Derivatives, tolerance: f64) -> Outcome {
    let gradient = (formula.gradient)(formula.inputs);
    let expected = dot(&gradient, &found.dots);
    if !close(found.dot, expected, magnitude(&gradient) * magnitude(&found.dots), tolerance) {
        return fail(format!("forward sweep: output dot is {:e}, expected {expected:e}", found.dot));
    }
    Ok(())
}

fn check_reverse(formula: &Formula, found: &Derivatives, tolerance: f64) -> Outcome {
    let gradient = (formula.gradient)(formula.inputs);
    let scale = magnitude(&gradient);
    for (input, (&value, &expected)) in found.gradient.iter().zip(&gradient).enumerate() {
        if !close(value, expected, scale, tolerance) {
            return fail(format!("reverse sweep: derivative for input {input} is {value:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

/// `derivgrind check` finds nothing wrong.
fn checked(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let mut command = recording::tool(built.scratch.path());
    command.arg("check").arg("--").arg(&built.program).arg(combination.formulas[index].name);
    let finished = process::run(&mut command)?.successful("derivgrind check")?;
    if !finished.text().contains("agrees") {
        return fail(format!("no derivative agrees: {finished}"));
    }
    Ok(())
}

/// Checks the table itself: its gradient against difference quotients of the native program.
fn difference_quotient(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let value = |input: usize, steps: f64| -> Result<f64> {
        let mut inputs = formula.inputs.to_vec();
        inputs[input] += steps * STEP;
        let mut command = process::command(&built.program, built.scratch.path());
        command.arg(formula.name).args(inputs.iter().map(|value| format!("{value:e}")));
        let text = process::run(&mut command)?.successful("native run")?.text();
        text.split_whitespace().nth(1).context("no value was printed")?.parse().context("no number was printed")
    };
    let expected = (formula.gradient)(formula.inputs);
    if expected.len() != formula.inputs.len() {
        return fail("the gradient's length differs from the number of inputs");
    }
    let scale = magnitude(&expected);
    for (input, &expected) in expected.iter().enumerate() {
        let outer = value(input, 2.0)? - value(input, -2.0)?;
        let inner = value(input, 1.0)? - value(input, -1.0)?;
        let quotient = (8.0 * inner - outer) / (12.0 * STEP);
        if !close(quotient, expected, scale, DIFFERENCE_TOLERANCE.max(formula.error / STEP)) {
            return fail(format!(
                "the table says {expected:e} for input {input}, the difference quotient is {quotient:e}"
            ));
        }
    }
    Ok(())
}
