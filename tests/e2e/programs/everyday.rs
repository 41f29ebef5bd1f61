// SPDX-License-Identifier: Apache-2.0
// What programs do every day; run bare and in a sandbox, its output has to be the same.
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, prelude::*, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn threads() {
    let (sender, receiver) = mpsc::channel();
    let count = Arc::new(Mutex::new(0));
    let all: Vec<_> = (0..20)
        .map(|i| {
            let (sender, count) = (sender.clone(), count.clone());
            thread::spawn(move || {
                for k in 0..100 {
                    sender.send(i * k).unwrap();
                    *count.lock().unwrap() += 1;
                }
            })
        })
        .collect();
    drop(sender);
    let sum: i32 = receiver.iter().sum();
    all.into_iter().for_each(|t| t.join().unwrap());
    println!("threads {sum} {}", count.lock().unwrap());
    println!(
        "panic {}",
        thread::spawn(|| panic!("in a thread")).join().is_err()
    );
}

fn files() -> io::Result<()> {
    let folder = std::env::temp_dir().join("everyday-ü");
    fs::create_dir_all(folder.join("a/b"))?;
    fs::write(folder.join("a/世界"), "text")?;
    let mut names: Vec<_> = fs::read_dir(folder.join("a"))?
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    println!(
        "files {names:?} {:?}",
        fs::File::open("/nope").map_err(|e| e.kind()).err()
    );
    fs::remove_dir_all(folder)
}

fn sockets() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || {
        for stream in listener.incoming().take(3) {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            stream.write_all(line.to_uppercase().as_bytes()).unwrap();
        }
    });
    for i in 0..3 {
        let mut stream = TcpStream::connect(address)?;
        writeln!(stream, "client {i}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        print!("{answer}");
    }
    server.join().unwrap();
    Ok(())
}

fn processes() -> io::Result<()> {
    let mut child = Command::new("sh")
        .args(["-c", "cat; echo $WHO; exit 6"])
        .env("WHO", "child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().unwrap().write_all(b"to the ")?;
    let done = child.wait_with_output()?;
    println!(
        "{:?} {}",
        done.status.code(),
        String::from_utf8_lossy(&done.stdout)
    );
    let mut sleeper = Command::new("sleep").arg("100").spawn()?;
    sleeper.kill()?;
    println!("{}", sleeper.wait()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    threads();
    files()?;
    sockets()?;
    processes()?;
    let mut seen = BTreeMap::new();
    for line in io::stdin().lines() {
        *seen.entry(line?).or_insert(0) += 1;
    }
    println!(
        "{seen:?} {:?}",
        std::env::args().skip(1).collect::<Vec<_>>()
    );
    println!("{:?}", std::env::var("EVERYDAY"));
    let out = io::stdout();
    let mut out = io::BufWriter::new(out.lock());
    for i in 0..50000 {
        writeln!(out, "line {i}")?;
    }
    out.write_all(&[0, 255, 254])?;
    out.flush()?;
    let numbers = [1u8, 2, 3];
    let sum = numbers.iter().fold(250u8, |a, b| a + b); // 256 does not fit
    println!("{sum}");
    Ok(())
}
