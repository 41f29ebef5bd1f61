enum E { A, B }
fn main() {
    let e = E::A;
    match e {
        E::A => println!("a"),
    }
    let _ = E::B;
}
