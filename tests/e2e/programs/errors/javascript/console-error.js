console.error("Error: not this one\n    at foo (/sandbox/x.js:9:9)");
console.error("TypeError: nor this");
function go() { throw new Error("real"); }
go();
