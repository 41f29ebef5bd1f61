fn middle(v: &[u8], from: usize, to: usize) -> &[u8] {
    &v[from..to]
}

fn main() {
    let v = vec![1, 2, 3];
    println!("{:?}", middle(&v, 0, 2));
    println!("{:?}", middle(&v, 2, 5));
}
