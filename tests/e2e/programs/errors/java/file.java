import java.io.*;

public class Main {
    public static void main(String[] args) throws IOException {
        new FileReader("missing.txt");
    }
}
