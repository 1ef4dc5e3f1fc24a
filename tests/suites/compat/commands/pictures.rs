//! Pictures: ImageMagick, gnuplot.

use crate::Case;

use super::shell;

/// A picture with some detail.
const PICTURE: &str = "convert -size 96x64 gradient:red-blue -swirl 60 in.ppm";

fn convert(name: &str, arguments: &[&str]) -> Case {
    Case::new(format!("convert-{name}"), &[&["convert", "-strip", "in.ppm"], arguments].concat())
        .prepared(shell(PICTURE))
        // Dates of the file go into the picture otherwise.
        .with_environment(&[("SOURCE_DATE_EPOCH", "0")])
}

fn gnuplot(name: &str, commands: &str) -> Case {
    Case::new(format!("gnuplot-{name}"), &["gnuplot", "-e", commands]).prepared(shell(
        "awk 'BEGIN { for (i = 1; i < 40; i++) print i, 3 * exp(-i / 9) + (i * 7919 % 13) / 100 }' > data",
    ))
}

pub fn cases() -> Vec<Case> {
    vec![
        convert("resize", &["-resize", "50%", "out.ppm"]),
        convert("blur", &["-blur", "0x3", "-sharpen", "0x1", "out.ppm"]),
        convert("rotate", &["-rotate", "33", "-colors", "16", "out.gif"]),
        convert("jpeg", &["-quality", "80", "out.jpg"]),
        convert("fourier", &["-colorspace", "gray", "-edge", "1", "-equalize", "out.pgm"]),
        Case::new("identify", &["identify", "-format", "%w %h %[mean] %[standard-deviation] %k\\n", "in.ppm"])
            .prepared(shell(PICTURE)),
        gnuplot("svg", "set terminal svg; set output 'out.svg'; plot sin(x) / x, besj0(x), 'data'"),
        gnuplot("surface", "set terminal dumb; set isosamples 20; splot exp(-x * x - y * y)"),
        gnuplot("fit", "f(x) = a * exp(-x / b); a = 1; b = 5; set fit quiet; fit f(x) 'data' via a, b; print a, b")
            // The log names the date.
            .ignoring("fit.log"),
    ]
}
