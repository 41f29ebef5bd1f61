// SPDX-License-Identifier: Apache-2.0
// What programs do every day; run bare and in a sandbox, its output has to be the same.
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

interface Shape {
    double area();
}

record Square(double side) implements Shape {
    public double area() {
        return side * side;
    }
}

enum Kind { SMALL, LARGE }

public class Everyday {
    static int depth;

    static void deeper() {
        depth++;
        deeper();
    }

    static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(16);
        List<Future<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            int n = i;
            all.add(pool.submit(() -> n * n));
        }
        int sum = 0;
        for (Future<Integer> one : all)
            sum += one.get();
        pool.shutdown();
        System.out.println("threads " + sum + " " + IntStream.range(0, 1000).parallel().sum());
    }

    static void server() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", e -> {
            byte[] body = ("got " + new String(e.getRequestBody().readAllBytes())).getBytes();
            e.sendResponseHeaders(200, body.length);
            e.getResponseBody().write(body);
            e.close();
        });
        server.start();
        URI there = URI.create("http://localhost:" + server.getAddress().getPort() + "/");
        HttpRequest post =
            HttpRequest.newBuilder(there).POST(HttpRequest.BodyPublishers.ofString("grüße")).build();
        System.out.println(
            HttpClient.newHttpClient().send(post, HttpResponse.BodyHandlers.ofString()).body());
        server.stop(0);
    }

    static void processes() throws Exception {
        Process sh = new ProcessBuilder("sh", "-c", "cat; exit 7").start();
        sh.getOutputStream().write("to the child".getBytes());
        sh.getOutputStream().close();
        System.out.println(new String(sh.getInputStream().readAllBytes()) + " " + sh.waitFor());
        Process sleeper = new ProcessBuilder("sleep", "100").start();
        sleeper.destroyForcibly();
        System.out.println(sleeper.waitFor());
    }

    static void files() throws Exception {
        Path folder = Files.createTempDirectory("everyday-ü");
        Files.writeString(folder.resolve("世界"), "zeile 1\nzeile ü\n");
        Files.createSymbolicLink(folder.resolve("link"), Path.of("世界"));
        try (Stream<Path> all = Files.walk(folder)) {
            System.out.println(all.map(p -> folder.relativize(p).toString()).sorted().toList());
        }
        System.out.println(Files.readAllLines(folder.resolve("link")));
        try {
            new FileReader("/nope");
        } catch (FileNotFoundException e) {
            System.out.println(e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        threads();
        server();
        processes();
        files();
        System.out.println(new Square(3).area() + " " + Arrays.toString(Kind.values()));
        System.out.println(Instant.ofEpochSecond(1700000000).atZone(ZoneId.of("Europe/Berlin")));
        try {
            deeper();
        } catch (StackOverflowError e) {
            System.out.println("deep " + (depth > 5000));
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;)
            System.out.println("in: " + line);
        System.out.println(Arrays.toString(args) + System.getenv("EVERYDAY"));
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 50000; i++)
            lines.append("line ").append(i).append('\n');
        System.out.print(lines);
        System.out.write(new byte[] { 0, (byte) 255, (byte) 254 });
        System.out.flush();
        throw new IllegalStateException("nobody catches this");
    }
}
