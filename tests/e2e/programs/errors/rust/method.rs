fn main() {
    let v = vec![1];
    v.pushh(2);
}
