import java.util.*;
import java.util.stream.*;

public class Main {
    static int check(int n) {
        if (n > 2) {
            throw new IllegalArgumentException("too large: " + n);
        }
        return n;
    }
    public static void main(String[] args) {
        System.out.println(Stream.of(1, 2, 3).map(n -> check(n)).collect(Collectors.toList()));
    }
}
