//! What each instruction is as a function of real numbers, and its partial derivatives: stated here once more, apart from the tool, by what the processor
//! manuals say.
//!
//! Only arithmetic needs saying. That bytes are moved, and operations on bits, are found out on the processor (see [`crate::natively`]).

use iced_x86::{Instruction, Mnemonic, OpKind};

use crate::elements::Operand;
use crate::places;
use crate::values::Format;

/// A function of real numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a b`
    Mul,
    /// `a / b`
    Div,
    /// The smaller; the second if equal or unordered.
    Min,
    /// The larger; the second if equal or unordered.
    Max,
    /// Square root.
    Sqrt,
    /// `1 / a`
    Reciprocal,
    /// `1 / sqrt(a)`
    ReciprocalRoot,
    /// `a`, in another format, or less a step function.
    Convert,
    /// `a` times 2 to the power of `b`, rounded down.
    Scale,
    /// `±a b ± c`
    Fused {
        /// Whether the product is negated.
        negative_product: bool,
        /// Whether the addend is.
        negative_addend: bool,
    },
    /// A sum of products of neighbouring pairs.
    SumOfProducts,
}

/// A real number among the results.
#[derive(Clone, Debug)]
pub struct Lane {
    /// What it is of its operands.
    pub function: Function,
    /// Format of the result.
    pub format: Format,
    /// Where it is.
    pub target: usize,
    /// Format of the operands.
    pub operand_format: Format,
    /// Where they are.
    pub operands: Vec<usize>,
}

/// Real arithmetic, by name without prefix and suffix: the function, and how its lanes lie.
const ARITHMETIC: &[(&str, Function, Shape)] = &[
    ("add", Function::Add, Shape::Corresponding),
    ("sub", Function::Sub, Shape::Corresponding),
    ("mul", Function::Mul, Shape::Corresponding),
    ("div", Function::Div, Shape::Corresponding),
    ("min", Function::Min, Shape::Corresponding),
    ("max", Function::Max, Shape::Corresponding),
    ("sqrt", Function::Sqrt, Shape::Last),
    ("rcp", Function::Reciprocal, Shape::Last),
    ("rsqrt", Function::ReciprocalRoot, Shape::Last),
    ("rcp14", Function::Reciprocal, Shape::Last),
    ("rsqrt14", Function::ReciprocalRoot, Shape::Last),
    ("reduce", Function::Convert, Shape::Last),
    ("scalef", Function::Scale, Shape::Corresponding),
    ("addsub", Function::Add, Shape::SubtractInEvenLanes),
    ("hadd", Function::Add, Shape::Neighbours),
    ("hsub", Function::Sub, Shape::Neighbours),
    ("dp", Function::SumOfProducts, Shape::Selected),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Corresponding,
    Last,
    SubtractInEvenLanes,
    Neighbours,
    Selected,
}

/// The name without the `v` of VEX encodings.
pub fn base_name(mnemonic: Mnemonic) -> String {
    let name = format!("{mnemonic:?}").to_lowercase();
    match name.strip_prefix('v') {
        Some(rest) if !["err", "erw", "zeroall", "zeroupper"].contains(&rest) => rest.to_owned(),
        _ => name,
    }
}

/// Lanes of real arithmetic; none if the instruction is something else.
pub fn lanes(instruction: &Instruction) -> Vec<Lane> {
    let name = base_name(instruction.mnemonic());
    if instruction.is_string_instruction() || !instruction.op0_register().is_vector_register() {
        return Vec::new();
    }
    if let Some(lanes) = conversion(instruction, &name) {
        return lanes;
    }
    let Some((base, format, packed)) = suffix(&name) else { return Vec::new() };
    if let Some(lanes) = fused(instruction, base, format, packed) {
        return lanes;
    }
    let Some(&(_, function, shape)) = ARITHMETIC.iter().find(|(name, ..)| *name == base) else { return Vec::new() };
    let (target, sources) = operands(instruction);
    let (Some(a), Some(b)) = (sources.first(), sources.last()) else { return Vec::new() };
    let size = format.bytes();
    let (a, b) = (|at: usize| a.at(at, size), |at: usize| b.at(at, size));
    let count = if packed { instruction.op0_register().size() / size } else { 1 };
    let group = 16 / size;
    let lane = |position: usize| {
        let at = position * size;
        let (function, operands) = match shape {
            Shape::Corresponding => (function, vec![a(at), b(at)]),
            Shape::Last => (function, vec![b(at)]),
            Shape::SubtractInEvenLanes => {
                (if position.is_multiple_of(2) { Function::Sub } else { Function::Add }, vec![a(at), b(at)])
            }
            Shape::Neighbours => {
                let (start, within) = (position / group * group, position % group);
                let first = (start + 2 * (within % (group / 2))) * size;
                let first = if within < group / 2 { a(first) } else { b(first) };
                (function, vec![first, first + size])
            }
            Shape::Selected => {
                let immediate = instruction.immediate8();
                let start = position / group * group;
                let receives = immediate & 1 << (position % group) != 0;
                let selected = (0..group).filter(|k| receives && immediate & 0x10 << k != 0);
                let products = selected.flat_map(|k| [a((start + k) * size), b((start + k) * size)]);
                (function, products.collect())
            }
        };
        Lane { function, format, target: target + at, operand_format: format, operands }
    };
    (0..count).map(lane).collect()
}

/// `ps`, `pd`, `ss`, `sd`.
fn suffix(name: &str) -> Option<(&str, Format, bool)> {
    let split = name.len().checked_sub(2)?;
    let (base, suffix) = name.split_at_checked(split)?;
    match suffix {
        "ps" => Some((base, Format::Single, true)),
        "pd" => Some((base, Format::Double, true)),
        "ss" => Some((base, Format::Single, false)),
        "sd" => Some((base, Format::Double, false)),
        _ => None,
    }
}

/// The destination, and the sources: in two-operand forms the destination is the first.
pub fn operands(instruction: &Instruction) -> (usize, Vec<Operand>) {
    let all = (0..instruction.op_count()).filter(|&operand| instruction.op_kind(operand) != OpKind::Immediate8);
    let mut all: Vec<Operand> = all.filter_map(|operand| Operand::of(instruction, operand)).collect();
    let target = all.first().map_or(0, |operand| operand.range.start);
    if all.len() >= 3 {
        all.remove(0);
    }
    (target, all)
}

/// `fmadd132ps` and so on: the digits name the operands in the order first factor, second factor, addend.
fn fused(instruction: &Instruction, base: &str, format: Format, packed: bool) -> Option<Vec<Lane>> {
    let split = base.len().checked_sub(3)?;
    let (kind, order) = base.split_at_checked(split)?;
    // Signs of product and addend in even and in odd lanes.
    let [even, odd] = match kind {
        "fmadd" => [(false, false); 2],
        "fmsub" => [(false, true); 2],
        "fnmadd" => [(true, false); 2],
        "fnmsub" => [(true, true); 2],
        "fmaddsub" => [(false, true), (false, false)],
        "fmsubadd" => [(false, false), (false, true)],
        _ => return None,
    };
    let operands: Vec<Operand> = (0..3).filter_map(|operand| Operand::of(instruction, operand)).collect();
    let digits = order.chars().map(|digit| digit.to_digit(10).map(|digit| digit as usize - 1));
    let order = digits.collect::<Option<Vec<usize>>>()?;
    // In `132` the digits give: factor 1, addend 2's place is the middle: operand 1 times operand 3 plus operand 2.
    let [x, y, z] = [order[0], order[1], order[2]].map(|operand| &operands[operand]);
    let count = if packed { instruction.op0_register().size() / format.bytes() } else { 1 };
    let lane = |position: usize| {
        let (negative_product, negative_addend) = if position.is_multiple_of(2) { even } else { odd };
        let at = position * format.bytes();
        Lane {
            function: Function::Fused { negative_product, negative_addend },
            format,
            target: operands[0].range.start + at,
            operand_format: format,
            operands: [x, y, z].map(|operand| operand.at(at, format.bytes())).to_vec(),
        }
    };
    Some((0..count).map(lane).collect())
}

/// `cvtss2sd` and its kin.
fn conversion(instruction: &Instruction, name: &str) -> Option<Vec<Lane>> {
    let (from, to, packed) = match name {
        "cvtss2sd" => (Format::Single, Format::Double, false),
        "cvtsd2ss" => (Format::Double, Format::Single, false),
        "cvtps2pd" => (Format::Single, Format::Double, true),
        "cvtpd2ps" => (Format::Double, Format::Single, true),
        _ => return None,
    };
    let (target, sources) = operands(instruction);
    let source = sources.last()?;
    let last = instruction.op_count() - 1;
    // The wider of the two is full.
    let count = match to {
        _ if !packed => 1,
        Format::Double => instruction.op0_register().size() / 8,
        Format::Single if source.broadcast => instruction.code().op_code().memory_size().size() / 8,
        Format::Single => places::operand(instruction, last)?.len() / 8,
    };
    let lane = |position: usize| Lane {
        function: Function::Convert,
        format: to,
        target: target + position * to.bytes(),
        operand_format: from,
        operands: vec![source.at(position * from.bytes(), from.bytes())],
    };
    Some((0..count).map(lane).collect())
}

impl Function {
    /// Whether the values are too special for the rule.
    pub fn is_too_special(self, values: &[f64]) -> bool {
        // Results out of range.
        self == Function::Scale && !values.get(1).is_some_and(|power| power.abs() < 1000.0)
    }

    /// Partial derivatives with respect to each operand, at these values.
    pub fn partials(self, values: &[f64]) -> Vec<f64> {
        let (a, b) = (values.first().copied().unwrap_or(0.0), values.get(1).copied().unwrap_or(0.0));
        match self {
            Function::Add | Function::Sub => {
                let sign = if self == Function::Add { 1.0 } else { -1.0 };
                vec![1.0, sign]
            }
            Function::Mul => vec![b, a],
            Function::Div => vec![1.0 / b, -(a / b) / b],
            // `a < b` is false for NaN, and then the second is taken.
            Function::Min => {
                if a < b {
                    vec![1.0, 0.0]
                } else {
                    vec![0.0, 1.0]
                }
            }
            Function::Max => {
                if a > b {
                    vec![1.0, 0.0]
                } else {
                    vec![0.0, 1.0]
                }
            }
            Function::Sqrt => vec![0.5 / a.sqrt()],
            Function::Reciprocal => vec![-1.0 / (a * a)],
            Function::ReciprocalRoot => vec![-0.5 / (a * a.sqrt())],
            Function::Convert => vec![1.0],
            Function::Scale => vec![b.floor().exp2(), 0.0],
            Function::Fused { negative_product, negative_addend } => {
                let sign = |negative| if negative { -1.0 } else { 1.0 };
                let product = sign(negative_product);
                vec![product * b, product * a, sign(negative_addend)]
            }
            Function::SumOfProducts => (0..values.len()).map(|k| values[k ^ 1]).collect(),
        }
    }
}

/// What is no real number, or a step function of one, has derivative zero: comparisons, tests, conversions to and from integers, roundings, signs.
pub fn is_flat(mnemonic: Mnemonic) -> bool {
    let name = base_name(mnemonic);
    #[rustfmt::skip]
    const BEGINNINGS: &[&str] =
        &["cmp", "pcmp", "comis", "ucomis", "round", "movmsk", "pmovmskb", "set", "test", "ptest",
          "rndscale", "getexp", "fpclass", "pmovm2", "pbroadcastm", "scas"];
    let converts = name.starts_with("cvt") && ["si", "dq", "pi", "qq"].iter().any(|integer| name.contains(integer));
    converts
        || name.starts_with("pmov") && name.ends_with("2m")
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && !name.starts_with("cmpxchg")
}

/// Whether integers become real numbers: the last operand. What is a number's bits is lost then.
pub fn converts_integers(mnemonic: Mnemonic) -> bool {
    let name = base_name(mnemonic);
    ["si2", "pi2", "dq2", "qq2"].iter().any(|from| name.starts_with("cvt") && name.contains(from))
}

/// Moves that also fill bytes with copies of a sign, which belong to no real number.
pub fn extends_signs(instruction: &Instruction) -> bool {
    let name = base_name(instruction.mnemonic());
    if name == "sar" && instruction.op1_kind() == OpKind::Immediate8 {
        let modulus = if places::operand(instruction, 0).is_some_and(|target| target.len() == 8) { 64 } else { 32 };
        return (instruction.immediate8() % modulus).is_multiple_of(8);
    }
    name.starts_with("pmovsx")
        || ["movsx", "movsxd", "cbw", "cwde", "cdqe", "cwd", "cdq", "cqo"].contains(&name.as_str())
}

/// Whether a later instruction can undo this one: an exclusive or of two numbers, a rotation, a shift that drops no more than sign and exponent. The result keeps the shadow of the
/// only active operand.
pub fn can_be_undone(instruction: &Instruction) -> bool {
    const DIFFERENCES: &[&str] = &["xor", "pxor", "pxord", "pxorq", "xorps", "xorpd"];
    const SHIFTS: &[&str] = &["shl", "sal", "shlx", "pslld", "psllq", "psllvd", "psllvq"];
    let name = base_name(instruction.mnemonic());
    let is_difference = DIFFERENCES.contains(&name.as_str()) && constant(instruction).is_none();
    is_difference || SHIFTS.contains(&name.as_str()) || rotates(instruction)
}

/// Rotations of whole numbers.
pub fn rotates(instruction: &Instruction) -> bool {
    const ROTATIONS: &[&str] =
        &["rol", "ror", "rorx", "prold", "prolq", "prord", "prorq", "prolvd", "prolvq", "prorvd", "prorvq"];
    ROTATIONS.contains(&base_name(instruction.mnemonic()).as_str())
}

/// Operations on integers or bits of this many bytes, in which real operations may hide; `None` for other instructions.
pub fn bit_operation(instruction: &Instruction) -> Option<&'static [usize]> {
    if matches!(instruction.mnemonic(), Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts) && count(instruction).is_some() {
        return None;
    }
    const EITHER: &[usize] = &[4, 8];
    #[rustfmt::skip]
    const TABLE: &[(&str, &[usize])] = &[
        ("and", EITHER), ("pand", EITHER), ("andps", EITHER), ("andpd", EITHER),
        ("bzhi", EITHER), ("andn", EITHER), ("pandn", EITHER), ("andnps", EITHER), ("andnpd", EITHER),
        ("or", EITHER), ("por", EITHER), ("orps", EITHER), ("orpd", EITHER),
        ("xor", EITHER), ("pxor", EITHER), ("xorps", EITHER), ("xorpd", EITHER),
        ("add", EITHER), ("sub", EITHER), ("adc", EITHER), ("sbb", EITHER),
        ("inc", EITHER), ("dec", EITHER), ("neg", EITHER), ("not", EITHER),
        ("btc", EITHER), ("btr", EITHER), ("bts", EITHER),
        ("pminsd", &[4]), ("pmaxsd", &[4]), ("pminud", &[4]), ("pmaxud", &[4]),
        ("paddd", &[4]), ("psubd", &[4]), ("paddq", &[8]), ("psubq", &[8]),
        ("shl", EITHER), ("sal", EITHER), ("shr", EITHER), ("sar", EITHER), ("rol", EITHER), ("ror", EITHER),
        ("shlx", EITHER), ("shrx", EITHER), ("sarx", EITHER), ("rorx", EITHER),
        ("pslld", &[4]), ("psrld", &[4]), ("psrad", &[4]), ("psllq", &[8]), ("psrlq", &[8]),
        ("pandd", EITHER), ("pandq", EITHER), ("pandnd", EITHER), ("pandnq", EITHER),
        ("pord", EITHER), ("porq", EITHER), ("pxord", EITHER), ("pxorq", EITHER), ("pternlogd", EITHER), ("pternlogq", EITHER),
        ("pminsq", &[8]), ("pmaxsq", &[8]), ("pminuq", &[8]), ("pmaxuq", &[8]), ("psraq", &[8]), ("psravq", &[8]),
        ("prold", &[4]), ("prord", &[4]), ("prolvd", &[4]), ("prorvd", &[4]),
        ("prolq", &[8]), ("prorq", &[8]), ("prolvq", &[8]), ("prorvq", &[8]),
        ("getmantps", &[4]), ("getmantss", &[4]), ("getmantpd", &[8]), ("getmantsd", &[8]),
        ("rangeps", &[4]), ("rangess", &[4]), ("rangepd", &[8]), ("rangesd", &[8]),
        ("fixupimmps", &[4]), ("fixupimmss", &[4]), ("fixupimmpd", &[8]), ("fixupimmsd", &[8]),
        ("psllvd", &[4]), ("psrlvd", &[4]), ("psravd", &[4]), ("psllvq", &[8]), ("psrlvq", &[8]),
    ];
    let name = base_name(instruction.mnemonic());
    let (_, sizes) = TABLE.iter().find(|(entry, _)| *entry == name)?;
    // Under a mask, or if one element is repeated, they are elements of the instruction.
    let elements = instruction.has_op_mask() || instruction.is_broadcast();
    Some(match instruction.code().op_code().memory_size().element_size() {
        4 if elements && sizes.contains(&4) => &[4],
        8 if elements && sizes.contains(&8) => &[8],
        _ => sizes,
    })
}

/// Bytes of the number that a scalar operation on bits computes; the rest of the register is moved.
pub fn scalar(instruction: &Instruction) -> Option<usize> {
    let name = base_name(instruction.mnemonic());
    let (base, format, packed) = suffix(&name)?;
    (!packed && ["getmant", "range", "fixupimm"].contains(&base)).then_some(format.bytes())
}

/// Operations that choose one of two operands, perhaps with another sign (or give a constant): which operands these are.
pub fn choice(instruction: &Instruction) -> Option<[u32; 2]> {
    let name = base_name(instruction.mnemonic());
    match suffix(&name)?.0 {
        "range" => Some([1, 2]),
        "fixupimm" => Some([0, 1]),
        _ => None,
    }
}

/// Whether zero, a power of two or an infinity can be the result whatever the operands.
pub fn gives_constants(instruction: &Instruction) -> bool {
    base_name(instruction.mnemonic()).starts_with("fixupimm")
}

/// Operations that look like moves of bytes with some operands, but are none.
pub fn is_never_move(instruction: &Instruction) -> bool {
    let name = base_name(instruction.mnemonic());
    let saturates = name.starts_with("pmovus") || name.starts_with("pmovs") && !name.starts_with("pmovsx");
    // Vector shifts to the left, but for halves, are for exponents.
    let last = instruction.op_count() - 1;
    let halves = |bits: u8| bits.is_multiple_of(32);
    let makes_exponents = matches!(name.as_str(), "pslld" | "psllq")
        && instruction.op_kind(last) == OpKind::Immediate8
        && !halves(instruction.immediate8());
    let multiplies = ["mul", "imul", "div", "idiv"].contains(&name.as_str());
    saturates
        || makes_exponents
        || multiplies
        || ["kunpck", "kshift", "pbroadcastm", "getmant", "pconflict"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

/// Whether it can take bytes out of a number in a general register.
pub fn takes_bytes(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::And | Mnemonic::Bzhi)
}

/// Whether one or two bytes are written, which can be a part of a number.
pub fn writes_part(instruction: &Instruction) -> bool {
    places::operand(instruction, 0).is_some_and(|target| target.len() <= 2)
}

/// Whether such a part is exchanged, or not all of it becomes a constant: the tool need not look at what it is a part of then.
pub fn mixes_parts(instruction: &Instruction) -> bool {
    let name = base_name(instruction.mnemonic());
    matches!(name.as_str(), "xchg" | "xadd" | "cmpxchg" | "movzx" | "movsx" | "shld" | "shrd")
        || name.starts_with("pmov")
}

/// A constant operand.
pub fn constant(instruction: &Instruction) -> Option<u64> {
    let last = instruction.op_count().checked_sub(1)?;
    instruction.try_immediate(last).ok()
}

/// Whether integer code combines the operands with masks and the like.
pub fn takes_masks(instruction: &Instruction) -> bool {
    choice(instruction).is_none() && !base_name(instruction.mnemonic()).starts_with("getmant")
}

/// Operands that say where data goes, and are no data themselves.
pub fn selectors(instruction: &Instruction) -> Vec<std::ops::Range<usize>> {
    let name = base_name(instruction.mnemonic());
    let three = instruction.op_count() >= 3;
    let operand = |operand: u32| places::operand(instruction, operand).filter(|_| operand < instruction.op_count());
    let by_register = three && !matches!(instruction.op_kind(2), OpKind::Immediate8);
    let mut ranges: Vec<Option<std::ops::Range<usize>>> = match name.as_str() {
        "pshufb" => vec![operand(instruction.op_count() - 1)],
        "permd" | "permps" | "maskmovps" | "maskmovpd" | "pmaskmovd" | "pmaskmovq" => vec![operand(1)],
        "permq" | "permpd" | "permw" if by_register => vec![operand(1)],
        _ if name.starts_with("permt2") => vec![operand(1)],
        _ if name.starts_with("permi2") => vec![operand(0)],
        "permilps" | "permilpd" if three => vec![operand(2)],
        "blendvps" | "blendvpd" | "pblendvb" if instruction.op_count() == 4 => vec![operand(3)],
        "blendvps" | "blendvpd" | "pblendvb" => vec![places::register(iced_x86::Register::XMM0)],
        "maskmovdqu" | "maskmovq" => vec![operand(2)],
        _ if instruction.is_vsib() => vec![places::register(instruction.memory_index()), operand(2)],
        "xlatb" => vec![places::register(iced_x86::Register::AL)],
        _ => Vec::new(),
    };
    ranges.push(places::register(instruction.op_mask()));
    if places::repeats(instruction) {
        ranges.push(places::register(iced_x86::Register::RCX));
    }
    ranges.into_iter().flatten().collect()
}

/// What `cmpxchg` and its kin move: targets and sources of the same length. `equal` says how the comparison came out.
pub fn exchanged(instruction: &Instruction, equal: bool) -> Option<Vec<[std::ops::Range<usize>; 2]>> {
    use iced_x86::Register::{RBX, RCX};
    let (destination, accumulator) = compared(instruction)?;
    let length = accumulator[0].len();
    let parts = (0..accumulator.len()).map(|k| destination.start + k * length..destination.start + (k + 1) * length);
    if !equal {
        return Some(accumulator.into_iter().zip(parts).map(|(target, source)| [target, source]).collect());
    }
    let sources = match instruction.mnemonic() {
        Mnemonic::Cmpxchg => vec![places::operand(instruction, 1)?],
        _ => vec![places::register(RBX)?, places::register(RCX)?],
    };
    Some(parts.zip(sources).map(|(target, source)| [target, source.start..source.start + length]).collect())
}

/// The destination of a compare-and-exchange, and the parts of the accumulator, low one first.
pub fn compared(instruction: &Instruction) -> Option<(std::ops::Range<usize>, Vec<std::ops::Range<usize>>)> {
    use iced_x86::Register::{RAX, RDX};
    let bytes = match instruction.mnemonic() {
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg16b => 8,
        Mnemonic::Cmpxchg8b => 4,
        _ => return None,
    };
    let destination = places::operand(instruction, 0)?;
    let parts = if instruction.mnemonic() == Mnemonic::Cmpxchg { vec![RAX] } else { vec![RAX, RDX] };
    let part =
        |register| places::register(register).map(|range| range.start..range.start + bytes.min(destination.len()));
    let accumulator = parts.into_iter().filter_map(part).collect();
    Some((destination, accumulator))
}

/// The number of a bit in a register, which can reach beyond a memory operand.
pub fn bit_number(instruction: &Instruction) -> Option<std::ops::Range<usize>> {
    use Mnemonic::{Bt, Btc, Btr, Bts};
    count(instruction).filter(|_| matches!(instruction.mnemonic(), Bt | Btc | Btr | Bts))
}

/// Moves that the tool does not follow (docs/instructions.md): bytes of MMX registers, selected by data; one value to many places.
pub fn is_lost(instruction: &Instruction) -> bool {
    use Mnemonic::{Stosb, Stosd, Stosq, Stosw};
    if places::repeats(instruction) && matches!(instruction.mnemonic(), Stosb | Stosw | Stosd | Stosq) {
        return true;
    }
    let is_mmx = (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_mm());
    is_mmx && matches!(instruction.mnemonic(), Mnemonic::Pshufb | Mnemonic::Maskmovq)
}

/// Whether an element of the result depends on several elements of a source, on another one, or on one that lies elsewhere.
pub fn mixes_elements(instruction: &Instruction) -> bool {
    #[rustfmt::skip]
    const BEGINNINGS: &[&str] = &["pack", "pmadd", "dbpsad", "psad", "phadd", "phsub", "psll", "psra", "psrl",
        "pconflict", "pmovs", "pmovus", "cvtps2ph", "cvtph2ps"];
    let name = base_name(instruction.mnemonic());
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Integer minimum and maximum: which of two numbers is the result.
pub fn selects(instruction: &Instruction) -> bool {
    ["pminsd", "pmaxsd", "pminud", "pmaxud", "pminsq", "pmaxsq", "pminuq", "pmaxuq"]
        .contains(&base_name(instruction.mnemonic()).as_str())
}

/// Shifts and rotations of general registers.
pub fn shifts(mnemonic: Mnemonic) -> bool {
    ["shl", "sal", "shr", "sar", "shld", "shrd", "rol", "ror", "rcl", "rcr"].contains(&base_name(mnemonic).as_str())
}

/// Shifts that move whole bytes also if it is a register that says so: in vectors only to the right, since those to the left are for exponents.
pub fn shifts_bytes(mnemonic: Mnemonic) -> bool {
    let name = base_name(mnemonic);
    let in_vectors = ["psrl", "psra"].iter().any(|beginning| name.starts_with(beginning));
    in_vectors || ["shl", "sal", "shr", "sar", "shlx", "shrx", "sarx"].contains(&name.as_str())
}

/// The operand that says how far an instruction shifts, which bit it changes or how many it keeps, if that is no immediate.
pub fn count(instruction: &Instruction) -> Option<std::ops::Range<usize>> {
    const BEGINNINGS: &[&str] =
        &["bzhi", "sh", "sal", "sar", "rol", "ror", "rcl", "rcr", "psll", "psrl", "psra", "prol", "pror", "bt"];
    let name = base_name(instruction.mnemonic());
    let counts = BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && !name.ends_with("ldq");
    places::operand(instruction, instruction.op_count().checked_sub(1)?).filter(|_| counts)
}
