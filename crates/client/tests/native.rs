//! Outside the tool requests have no effect.

use derivgrind_client as dg;

#[test]
fn inputs_and_outputs_keep_their_values() {
    let mut x = [1.5_f64, -0.0, f64::NAN];
    let bits = x.map(f64::to_bits);
    dg::inputs(&mut x);
    dg::outputs(&x);
    assert_eq!(x.map(f64::to_bits), bits);
    let mut y = 0.1_f32;
    assert_eq!(dg::input(&mut y), 0);
    assert_eq!(dg::output(&y), 0);
    assert_eq!(y, 0.1);
}

#[test]
fn results_are_the_defaults() {
    let mut x = 2.0_f64;
    assert_eq!(dg::mode(), dg::Mode::Native);
    assert_eq!(dg::new_index([0, 0], [1.0, 2.0], 3.0), 0);
    dg::set_index(&mut x, 5);
    assert_eq!(dg::index(&x), 0);
    dg::set_dot_value(&mut x, 7.0);
    assert_eq!(dg::dot_value(&x), 0.0);
    dg::set_dot_value_in(1, &mut x, 7.0);
    assert_eq!((dg::dot_value_in(1, &x), dg::directions()), (0.0, 0));
    let _outer = dg::disable();
    let _inner = dg::disable();
    assert_eq!(dg::sequence::request(41, dg::sequence::Number::GetMode, [0; 5]), 41);
}
