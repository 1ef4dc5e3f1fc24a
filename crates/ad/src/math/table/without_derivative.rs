//! Functions whose results are integers. They are in the table so that their tests of bit patterns do not count as lost activity.

use super::super::rule::Rule::Constant;
use super::{Line, Names, R_TO_INTEGER, RR_TO_INTEGER, line};

#[rustfmt::skip]
pub(super) static LINES: &[Line] = &[
    line!("__finite", R_TO_INTEGER, Constant, "", ""),
    line!("__fpclassify", R_TO_INTEGER, Constant, "", ""),
    line!("__iseqsig", RR_TO_INTEGER, Constant, "", ""),
    line!("__isinf", R_TO_INTEGER, Constant, "", ""),
    line!("__isnan", R_TO_INTEGER, Constant, "", ""),
    line!("__issignaling", R_TO_INTEGER, Constant, "", ""),
    line!("__signbit", R_TO_INTEGER, Constant, "", ""),
    line!("finite", R_TO_INTEGER, Constant, "", ""),
    line!("ilogb", R_TO_INTEGER, Constant, "", ""),
    line!("isinf", R_TO_INTEGER, Constant, "", ""),
    line!("isnan", R_TO_INTEGER, Constant, "", ""),
    line!("llogb", R_TO_INTEGER, Constant, "", ""),
    line!("llrint", R_TO_INTEGER, Constant, "", ""),
    line!("llround", R_TO_INTEGER, Constant, "", ""),
    line!("lrint", R_TO_INTEGER, Constant, "", ""),
    line!("lround", R_TO_INTEGER, Constant, "", ""),
];
