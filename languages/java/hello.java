import java.util.Optional;

interface Greeting {
    String text();
}

record Hello(String name) implements Greeting {
    public String text() {
        return "Hello, " + name + "!";
    }
}

public class Greeter {
    public static void main(String[] args) {
        String name = Optional.of(args).filter(a -> a.length > 0).map(a -> a[0]).orElse("world");
        System.out.println(new Hello(name).text());
    }
}
