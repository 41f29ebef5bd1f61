fn main() {
    let n: i32 = "abc";
    println!("{}", n);
}
