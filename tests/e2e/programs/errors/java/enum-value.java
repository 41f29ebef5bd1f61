import java.util.*;

public class Main {
    enum Level { LOW, HIGH }

    static Level parse(String s) {
        return Level.valueOf(s);
    }

    public static void main(String[] args) {
        Optional.of("medium").map(String::toUpperCase).map(Main::parse).ifPresent(System.out::println);
    }
}
