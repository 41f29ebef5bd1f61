fn main() {
    let x = 1;
    println!("{}", x);
    x = 2;
    println!("{}", x);
}
