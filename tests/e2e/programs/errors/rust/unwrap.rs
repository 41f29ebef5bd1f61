fn main() {
    let n: i32 = "abc".parse().unwrap();
    println!("{}", n);
}
