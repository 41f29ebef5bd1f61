fn area(_r: f64) -> f64 {
    unimplemented!()
}
fn main() {
    println!("{}", area(1.0));
}
