fn main() {
    let value = 1;
    println!("{}", vlaue);
}
