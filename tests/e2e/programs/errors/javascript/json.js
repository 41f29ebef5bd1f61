const text = "{bad";
JSON.parse(text);
