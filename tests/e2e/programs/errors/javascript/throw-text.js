const x = 1;
throw "plain";
