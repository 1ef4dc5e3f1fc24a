//! Draws a C program, and knows its derivatives: each statement is evaluated when it is drawn.

use std::fmt::Write as _;

use derivgrind_tests::numbers::SplitMix64;

use crate::format::Format;
use crate::number::{INPUTS, Number};
use crate::operations::{Lost, OPERATIONS, Operation};

/// Functions of a program.
const FUNCTIONS: usize = 12;
/// Statements of a function, loops and their results counted as one.
const STATEMENTS: usize = 14;
/// Times that a statement is drawn anew because its result could not be used.
const ATTEMPTS: usize = 100;
/// Numbers of elements of arrays: whole vectors, and vectors with a rest. None is a multiple of [`STEP`].
const LENGTHS: [usize; 6] = [5, 8, 13, 16, 19, 33];
/// Scattered elements lie so many places apart.
const STEP: usize = 7;
/// Most of the operands of an operation are new variables.
const RECENT: usize = 5;

/// A function and what it returns.
pub struct Function {
    /// C text.
    text: String,
    /// Value and derivatives, as they should be.
    pub result: Number,
    /// Whether any of its variables is a binary32 number.
    pub rounds_to_float: bool,
    /// Where derivatives may be lost in it, with a note.
    pub lost: Lost,
}

/// A program: what it is made of, and the inputs that it starts with.
pub struct Program {
    /// C text.
    pub source: String,
    /// In the order of the outputs.
    pub functions: Vec<Function>,
}

impl Program {
    /// The program of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let mut inputs = Vec::<f64>::new();
        while inputs.len() < INPUTS {
            let input = quarters(&mut random);
            // Equal numbers cannot be told apart by their bits.
            if inputs.iter().all(|other| other.abs() != input.abs()) {
                inputs.push(input);
            }
        }
        let functions: Vec<Function> =
            (0..FUNCTIONS).map(|number| Writer::new(&mut random, number, &inputs).function()).collect();
        let mut source = String::from(PROLOGUE);
        functions.iter().for_each(|function| source.push_str(&function.text));
        let names: Vec<String> = (0..FUNCTIONS).map(|number| format!("f{number}")).collect();
        let list: Vec<String> = inputs.iter().map(|input| format!("{input:?}")).collect();
        let _ = writeln!(source, "static double (*const functions[])(const double *) = {{{}}};", names.join(", "));
        let _ = writeln!(source, "static double inputs[] = {{{}}};", list.join(", "));
        Self { source: source + EPILOGUE, functions }
    }
}

/// A number of few bits, neither small nor large: exact in each format.
fn quarters(random: &mut SplitMix64) -> f64 {
    let magnitude = 0.375 + (random.bits() % 16) as f64 / 8.0;
    if random.bits() & 1 == 0 { magnitude } else { -magnitude }
}

/// A variable of the function that is being drawn: a number, or an array.
struct Variable {
    name: String,
    format: Format,
    elements: Vec<Number>,
}

/// Draws one function.
struct Writer<'random> {
    random: &'random mut SplitMix64,
    number: usize,
    /// C functions of the operations.
    operations: String,
    body: String,
    variables: Vec<Variable>,
    arrays: Vec<Variable>,
    names: usize,
    length: usize,
    formats: Vec<Format>,
    lost: Lost,
}

/// An operand of an operation: its C text, and what it is in each round of a loop.
struct Operand {
    text: String,
    elements: Vec<Number>,
}

impl<'random> Writer<'random> {
    fn new(random: &'random mut SplitMix64, number: usize, inputs: &[f64]) -> Self {
        // Most functions are of one format.
        let formats = match random.bits() % 6 {
            0 | 1 => vec![Format::Double],
            2 => vec![Format::Float],
            3 => vec![Format::Float, Format::Double],
            4 => vec![Format::Extended, Format::Double],
            _ => Format::ALL.to_vec(),
        };
        let length = LENGTHS[random.bits() as usize % LENGTHS.len()];
        let (operations, body, variables, arrays) = Default::default();
        let mut writer = Self {
            random,
            number,
            operations,
            body,
            variables,
            arrays,
            names: 0,
            length,
            formats,
            lost: Lost::Nowhere,
        };
        for (position, &value) in inputs.iter().enumerate() {
            let format = writer.format();
            let input = Number::input(value, position);
            writer.define(format, &format!("x[{position}]"), input);
        }
        writer
    }

    fn function(mut self) -> Function {
        for _ in 0..STATEMENTS {
            if self.below(4) == 0 {
                self.loops();
            } else {
                self.attempt(Self::operation);
            }
        }
        // What came last depends on most of what came before.
        let last: Vec<&Variable> = self.variables.iter().rev().take(RECENT).collect();
        let terms: Vec<String> = last.iter().map(|variable| format!("(double){}", variable.name)).collect();
        let numbers: Vec<Number> = last.iter().map(|variable| variable.elements[0]).collect();
        let mut result = Number::constant(0.0);
        for number in &numbers {
            result.value += number.value;
            result.scale += number.scale;
            result.gradient.iter_mut().zip(&number.gradient).for_each(|(sum, derivative)| *sum += derivative);
        }
        let length = if self.below(2) == 0 { format!("{}", self.length) } else { format!("length({})", self.length) };
        let text = format!(
            "\n{}static NOINLINE double f{}(const double *x) {{\n    int n = {length}, i;\n{}    return {};\n}}\n",
            self.operations,
            self.number,
            self.body,
            terms.join(" + ")
        );
        let rounds_to_float = self.formats.contains(&Format::Float) || text.contains("float");
        Function { text, result, rounds_to_float, lost: self.lost }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.bits() as usize % limit
    }

    fn format(&mut self) -> Format {
        let position = self.below(self.formats.len());
        self.formats[position]
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    /// Draws until something could be written.
    fn attempt(&mut self, write: impl Fn(&mut Self) -> Option<()>) {
        let _ = (0..ATTEMPTS).find_map(|_| write(self));
    }

    /// Adds a variable with a value.
    fn define(&mut self, format: Format, text: &str, number: Number) {
        let name = self.name("v");
        // What it should be, for whoever looks for the step that went wrong.
        let Number { value, gradient, .. } = number;
        let _ = writeln!(self.body, "    {} {name} = {text}; /* {value:e} {gradient:?} */", format.c_type());
        self.variables.push(Variable { name, format, elements: vec![number] });
    }

    /// The position of a variable, probably a new one.
    fn recent(&mut self, variables: usize) -> usize {
        let newest = if self.below(4) == 0 { variables } else { variables.min(RECENT) };
        variables - 1 - self.below(newest)
    }

    /// A variable of the given format.
    fn scalar(&mut self, format: Format) -> Option<Operand> {
        let variable = self.recent(self.variables.len());
        let Variable { name, elements, .. } = &self.variables[variable];
        Some(Operand { text: name.clone(), elements: vec![elements[0].converted(format)?] })
    }

    /// An element of an array for each round of a loop, or the same variable in all.
    fn indexed(&mut self, format: Format) -> Option<Operand> {
        if self.below(5) == 0 {
            let scalar = self.scalar(format)?;
            return Some(Operand { elements: vec![scalar.elements[0]; self.length], ..scalar });
        }
        let (array, pattern, length) = (self.recent(self.arrays.len()), self.below(8), self.length);
        let Variable { name, elements, .. } = &self.arrays[array];
        let (index, place): (&str, fn(usize, usize) -> usize) = match pattern {
            0 => ("n - 1 - i", |i, n| n - 1 - i),
            1 => ("(i * 7 + 3) % n", |i, n| (i * STEP + 3) % n),
            2 => ("i / 2", |i, _| i / 2),
            _ => ("i", |i, _| i),
        };
        let taken: Option<Vec<Number>> = (0..length).map(|i| elements[place(i, length)].converted(format)).collect();
        Some(Operand { text: format!("{name}[{index}]"), elements: taken? })
    }

    /// An operation of the format, as a C function, and the integer that goes with it. Returns what calls it.
    fn spell(&mut self, format: Format) -> Option<(&'static Operation, i32)> {
        let operation = &OPERATIONS[self.below(OPERATIONS.len())];
        let integer = 1 + self.below(3) as i32;
        operation.formats.contains(&format).then_some((operation, integer))
    }

    /// Writes the C function of an operation, and returns a call of it.
    fn call(&mut self, operation: &Operation, format: Format, operands: &[Operand], integer: i32) -> String {
        let mut linkage = ["static NOINLINE", "static inline", "static ALWAYS_INLINE"][self.below(3)];
        if operation.body.contains("setjmp") {
            // Compilers refuse the others.
            linkage = "static NOINLINE";
        }
        let name = self.name(&format!("f{}_", self.number));
        let function = format!("{linkage} $R {name}($R a, $R b, $R c, $R d, int k) {{ {} }}\n", operation.body);
        self.operations.push_str(&format.in_c(&function));
        self.lost = self.lost.max(operation.lost);
        let mut arguments: Vec<String> = operands.iter().map(|operand| operand.text.clone()).collect();
        arguments.resize(4, "0".to_owned());
        format!("{name}({}, {integer})", arguments.join(", "))
    }

    /// A statement: a new variable, by an operation on others.
    fn operation(&mut self) -> Option<()> {
        let format = self.format();
        let (operation, integer) = self.spell(format)?;
        let operands: Option<Vec<Operand>> = (0..operation.operands).map(|_| self.scalar(format)).collect();
        let operands = operands?;
        let number = evaluate(operation, integer, format, &operands, 0)?;
        let call = self.call(operation, format, &operands, integer);
        self.define(format, &call, number);
        Some(())
    }

    /// Loops over arrays, and variables that come of them.
    fn loops(&mut self) {
        self.attempt(Self::filled);
        if self.arrays.is_empty() {
            return;
        }
        for _ in 0..1 + self.below(3) {
            self.attempt(|writer| match writer.below(6) {
                0 => writer.moved(),
                1 => writer.where_larger(),
                2 => writer.recurrence(),
                _ => writer.mapped(),
            });
        }
        self.attempt(Self::reduced);
    }

    /// Adds an array that the statement in `text` fills.
    fn define_array(&mut self, format: Format, name: String, text: &str, elements: Vec<Number>) {
        let _ = writeln!(self.body, "    {} {name}[{}];\n    {text}", format.c_type(), self.length);
        self.arrays.push(Variable { name, format, elements });
    }

    /// An array that depends on two variables.
    fn filled(&mut self) -> Option<()> {
        let format = self.format();
        let (slope, offset) = (self.scalar(format)?, self.scalar(format)?);
        let elements: Option<Vec<Number>> = (0..self.length)
            .map(|i| {
                let (slope, offset) = (slope.elements[0], offset.elements[0]);
                Number::result(slope.value * weight(i) + offset.value, &[weight(i), 1.0], &[slope, offset], format)
            })
            .collect();
        let (elements, name) = (elements?, self.name("t"));
        let c_type = format.c_type();
        let text = format!(
            "for (i = 0; i < n; i++) {name}[i] = ({c_type}){} * ({c_type})weights[i] + ({c_type}){};",
            slope.text, offset.text
        );
        self.define_array(format, name, &text, elements);
        Some(())
    }

    /// An operation on each element.
    fn mapped(&mut self) -> Option<()> {
        let format = self.format();
        let (operation, integer) = self.spell(format)?;
        let operands: Option<Vec<Operand>> = (0..operation.operands).map(|_| self.indexed(format)).collect();
        let operands = operands?;
        let elements: Option<Vec<Number>> =
            (0..self.length).map(|round| evaluate(operation, integer, format, &operands, round)).collect();
        let (elements, name) = (elements?, self.name("t"));
        let call = self.call(operation, format, &operands, integer);
        self.define_array(format, name.clone(), &format!("for (i = 0; i < n; i++) {name}[i] = {call};"), elements);
        Some(())
    }

    /// An operation on the elements that are larger than others: the array keeps the rest.
    fn where_larger(&mut self) -> Option<()> {
        let array = self.recent(self.arrays.len());
        let format = self.arrays[array].format;
        let (left, right) = (self.indexed(format)?, self.indexed(format)?);
        let (operation, integer) = self.spell(format)?;
        let name = self.arrays[array].name.clone();
        let operands: Option<Vec<Operand>> = (0..operation.operands).map(|_| self.indexed(format)).collect();
        let operands = operands?;
        // The array changes while the loop reads it.
        if operands.iter().chain([&left, &right]).any(|operand| operand.text.starts_with(&format!("{name}["))) {
            return None;
        }
        let mut elements = self.arrays[array].elements.clone();
        for (round, element) in elements.iter_mut().enumerate() {
            let (left, right) = (left.elements[round].value, right.elements[round].value);
            if (left - right).abs() < 1e-2 * left.abs().max(right.abs()) {
                return None;
            }
            if left > right {
                *element = evaluate(operation, integer, format, &operands, round)?;
            }
        }
        self.arrays[array].elements = elements;
        let call = self.call(operation, format, &operands, integer);
        let c_type = format.c_type();
        let _ = writeln!(
            self.body,
            "    for (i = 0; i < n; i++) if (({c_type}){} > ({c_type}){}) {name}[i] = {call};",
            left.text, right.text
        );
        Some(())
    }

    /// The elements of an array at other places.
    fn moved(&mut self) -> Option<()> {
        let source = self.recent(self.arrays.len());
        let Variable { name: from, format, elements } = &self.arrays[source];
        let (from, format, mut elements) = (from.clone(), *format, elements.clone());
        let (to, last) = (self.name("t"), self.length - 1);
        let text = match self.below(6) {
            0 => format!("memcpy({to}, {from}, sizeof {to});"),
            1 => {
                elements.copy_within(..last, 1);
                format!("memcpy({to}, {from}, sizeof {to}); memmove({to} + 1, {to}, {last} * sizeof *{to});")
            }
            2 => {
                elements.copy_within(1.., 0);
                format!(
                    "for (i = 0; i < n; i++) {to}[i] = {from}[i]; for (i = 0; i < n - 1; i++) {to}[i] = {to}[i + 1];"
                )
            }
            3 => {
                elements.reverse();
                format!(
                    "memcpy({to}, {from}, sizeof {to}); for (i = 0; i < n / 2; i++) {{ {} s = {to}[i]; {to}[i] = {to}[n - 1 - i]; {to}[n - 1 - i] = s; }}",
                    format.c_type()
                )
            }
            4 => {
                let mut scattered = elements.clone();
                for (place, element) in elements.iter().enumerate() {
                    scattered[(place * STEP + 3) % self.length] = *element;
                }
                elements = scattered;
                format!("for (i = 0; i < n; i++) {to}[(i * 7 + 3) % n] = {from}[i];")
            }
            _ => format!(
                "for (i = 0; i < (int)sizeof {to}; i++) ((unsigned char *){to})[i] = ((unsigned char *){from})[i];"
            ),
        };
        self.define_array(format, to, &text, elements);
        Some(())
    }

    /// Each element changes the next one.
    fn recurrence(&mut self) -> Option<()> {
        let array = self.recent(self.arrays.len());
        let Variable { name, format, elements } = &self.arrays[array];
        let (name, format, mut elements) = (name.clone(), *format, elements.clone());
        for place in 1..elements.len() {
            let value = elements[place].value / 2.0 - elements[place - 1].value / 4.0;
            elements[place] = Number::result(value, &[0.5, -0.25], &[elements[place], elements[place - 1]], format)?;
        }
        self.arrays[array].elements = elements;
        let _ = writeln!(self.body, "    for (i = 1; i < n; i++) {name}[i] = {name}[i] / 2 - {name}[i - 1] / 4;");
        Some(())
    }

    /// A variable that depends on all elements of an array, or on one.
    fn reduced(&mut self) -> Option<()> {
        let format = self.format();
        let (left, right) = (self.indexed(format)?, self.indexed(format)?);
        let (length, c_type, sum) = (self.length, format.c_type(), self.name("s"));
        let of_each = |elements: &[Number], change: &dyn Fn(f64) -> f64| -> Vec<f64> {
            elements.iter().map(|number| change(number.value)).collect()
        };
        let (text, number) = match self.below(4) {
            0 => {
                let value: f64 = left.elements.iter().map(|number| number.value).sum();
                let number = Number::result(value, &vec![1.0; length], &left.elements, format)?;
                (format!("{c_type} {sum} = 0; for (i = 0; i < n; i++) {sum} += {};", left.text), number)
            }
            1 => {
                let value: f64 =
                    left.elements.iter().zip(&right.elements).map(|(left, right)| left.value * right.value).sum();
                let partials =
                    [of_each(&right.elements, &|value| value), of_each(&left.elements, &|value| value)].concat();
                let operands = [left.elements, right.elements].concat();
                let number = Number::result(value, &partials, &operands, format)?;
                (
                    format!(
                        "{c_type} {sum} = 0; for (i = 0; i < n; i++) {sum} += ({c_type}){} * ({c_type}){};",
                        left.text, right.text
                    ),
                    number,
                )
            }
            2 => {
                let largest = left.elements.iter().max_by(|left, right| left.value.total_cmp(&right.value)).copied()?;
                let near = |number: &&Number| (number.value - largest.value).abs() < 1e-2 * largest.value.abs();
                if left.elements.iter().filter(near).count() > 1 {
                    return None;
                }
                (
                    format!(
                        "{c_type} {sum} = -1000; for (i = 0; i < n; i++) if (({c_type}){0} > {sum}) {sum} = {0};",
                        left.text
                    ),
                    largest,
                )
            }
            _ => {
                (format!("{c_type} {sum} = 0; for (i = 0; i < n; i++) {sum} = {};", left.text), *left.elements.last()?)
            }
        };
        let _ = writeln!(self.body, "    {text}");
        self.define(format, &sum, number);
        Some(())
    }
}

/// The result of an operation in one round of a loop.
fn evaluate(operation: &Operation, integer: i32, format: Format, operands: &[Operand], round: usize) -> Option<Number> {
    let operands: Vec<Number> = operands.iter().map(|operand| operand.elements[round]).collect();
    let values: Vec<f64> = operands.iter().map(|operand| operand.value).collect();
    let (value, partials) = (operation.rule)(&values, integer)?;
    Number::result(value, &partials, &operands, format)
}

/// The constants that arrays are filled with; the program computes the same.
fn weight(place: usize) -> f64 {
    (place * 5 % 16) as f64 / 8.0 - 0.9375
}

/// Everything before the functions.
const PROLOGUE: &str = r"
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <derivgrind.h>

#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))

double weights[64];
static NOINLINE int length(volatile int n) { return n; }
static NOINLINE double pick(int n, ...) {
    va_list list;
    double r = 0;
    va_start(list, n);
    while (n--) r = va_arg(list, double);
    va_end(list);
    return r;
}
int order_f(const void *a, const void *b) { return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b); }
int order_(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }
int order_l(const void *a, const void *b) { return (*(const long double *)a > *(const long double *)b) - (*(const long double *)a < *(const long double *)b); }
";

/// Everything behind them. `PROGRAM` calls all functions, `PROGRAM NUMBER` one of them.
const EPILOGUE: &str = r#"
int main(int argc, char **argv) {
    int k;
    for (k = 0; k < 64; k++) weights[k] = k * 5 % 16 / 8.0 - 0.9375;
    for (k = 0; k < (int)(sizeof inputs / sizeof *inputs); k++) DG_INPUTF(inputs[k]);
    for (k = 0; k < (int)(sizeof functions / sizeof *functions); k++) {
        double y;
        if (argc > 1 && atoi(argv[1]) != k) continue;
        y = functions[k](inputs);
        DG_OUTPUTF(y);
        printf("%d %.17g\n", k, y);
    }
    return 0;
}
"#;
