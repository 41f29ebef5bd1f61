import java.util.*;

public class Main {
    static class RefusedException extends RuntimeException {
        RefusedException(String m) { super(m); }
    }
    static void pay() {
        throw new RefusedException("no credit");
    }
    public static void main(String[] args) {
        pay();
    }
}
