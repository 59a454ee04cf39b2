// Runs once, before any cell code, and provides what is awkward to write in C. Functions that run
// later (in the part "Later") must not look up anything that cell code could have replaced.
(function (checkSyntax) {
    "use strict";

    // ---- The global object: ECMAScript only, without the engine's additions ----

    const standard = new Set([
        "globalThis", "Infinity", "NaN", "undefined", "eval", "isFinite", "isNaN", "parseFloat", "parseInt",
        "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "unescape",
        "AggregateError", "Array", "ArrayBuffer", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean",
        "DataView", "Date", "Error", "EvalError", "FinalizationRegistry", "Float16Array", "Float32Array",
        "Float64Array", "Function", "Int8Array", "Int16Array", "Int32Array", "Iterator", "Map", "Number",
        "Object", "Promise", "Proxy", "RangeError", "ReferenceError", "RegExp", "Set", "String", "Symbol",
        "SyntaxError", "TypeError", "Uint8Array", "Uint8ClampedArray", "Uint16Array", "Uint32Array",
        "URIError", "WeakMap", "WeakRef", "WeakSet", "Intl", "JSON", "Math", "Reflect",
    ]);
    for (const key of Reflect.ownKeys(globalThis))
        if (!standard.has(key) && key !== Symbol.toStringTag)
            if (!Reflect.deleteProperty(globalThis, key))
                throw new Error("cannot remove " + String(key));

    // ---- Compiling the source ----

    const AsyncFunction = (async () => {}).constructor;
    const importsMax = 64;

    // Returns names that do not occur in the source, of the length of `import`, so that columns do
    // not change.
    const unusedNames = (source, count) => {
        const names = [];
        for (let i = 0; names.length < count; i++) {
            const name = "$b" + i.toString(36).padStart(4, "0");
            if (!source.includes(name))
                names.push(name);
        }
        return names;
    };

    const lineOf = (source, index) => source.slice(0, index).split(/\r\n|[\n\r\u2028\u2029]/).length;

    // Returns the first import or re-export on the line of the error, or null.
    const findImport = (source, line) => {
        const declaration = /(?<=^|[\s;}])(import|export)\b([^;"'()]*)(["'])([^"'\n]*)\3/g;
        for (const found of source.matchAll(declaration)) {
            const [text, keyword, clause, , specifier] = found;
            const from = /\bfrom\s*$/.test(clause) || (keyword === "import" && clause.trim() === "");
            const first = lineOf(source, found.index);
            if (first > line)
                break;
            if (from && line <= lineOf(source, found.index + text.length))
                return { specifier, line: first };
        }
        return null;
    };

    const explain = (source, failure, line, unfinished) => {
        const lines = lineOf(source, source.length);
        const found = line > 0 ? findImport(source, line) : null;
        if (found !== null)
            return { kind: "import", name: "Error", message: "Unsupported import in exec: " + found.specifier,
                     stack: "at cell.mjs:" + found.line };
        // If the source ends too early or too late, the parser's message is about the code around
        // it.
        let message = failure.message;
        if (message === "Parser error")
            message = "Unexpected token '}'";
        else if (line > lines && unfinished)
            message = "Unexpected end of input";
        return { kind: "syntax", name: "SyntaxError", message,
                 stack: line > 0 ? "at cell.mjs:" + Math.min(line, lines) : "" };
    };

    // The engine's message would be "Could not import the module", so each import() becomes our own
    // call. Only the engine knows which of these words are code. One that is code breaks the
    // syntax if it is replaced by an invalid token, and does not if it is replaced by an operand;
    // the name of a property or a method would break with both.
    const replaceImports = (source, wrap, name) => {
        if (!source.includes("import"))
            return source;
        const pieces = [];
        let end = 0, tried = 0;
        for (const { index } of source.matchAll(/\bimport(?=\s*\()/g)) {
            if (++tried > importsMax)
                break;
            const [before, after] = [source.slice(0, index), source.slice(index + 6)];
            if (checkSyntax(wrap(before + "im@ort" + after)) !== null &&
                checkSyntax(wrap(before + "(0)" + after)) === null) {
                pieces.push(source.slice(end, index), name);
                end = index + 6;
            }
        }
        return pieces.join("") + source.slice(end);
    };

    // Whether a stack has a frame for the call of an async function besides the one for its body.
    const callIsShown = (() => {
        let stack = "";
        const outer = () => {
            (async function () { stack = new Error().stack; })();
            return stack;
        };
        return outer().split("\n").findIndex((frame) => frame.startsWith("outer@")) > 1;
    })();

    // The source becomes the body of a strict async function (the engine's C API has no modules)
    // and keeps its line numbers. Its end is reported without promises, so that cell code cannot
    // hide it by tampering with them.
    const compile = (given) => {
        // A module may start with a hashbang.
        const source = given.startsWith("#!") ? "//" + given.slice(2) : given;
        const [failed, ended, imported, caught] = unusedNames(source, 4);
        const head = `(${failed},${ended},${imported})=>(async function(){"use strict";try{`;
        const tail = `\n}catch(${caught}){${failed}(${caught})}finally{${ended}()}})()`;
        const wrap = (body) => head + body + tail;
        const failure = checkSyntax(wrap(source));
        // A source that closes our braces and opens others would pass: it must also be a valid body
        // by itself.
        try {
            new AsyncFunction('"use strict";' + source);
        } catch (refusal) {
            return { error: explain(source, refusal, failure === null ? 0 : failure.line, true) };
        }
        if (failure !== null)
            return { error: explain(source, failure, failure.line, false) };
        return { text: wrap(replaceImports(source, wrap, imported)), indent: head.length,
                 lines: lineOf(source, source.length), callIsShown };
    };

    // Warms up: the first compilation is slow.
    compile("await 0; text(`${1}`)");

    // ---- Later ----

    const { defineProperty, freeze } = Object;
    const [NativeError, NativeTypeError, NativeRangeError, NativeString] = [Error, TypeError, RangeError, String];
    const define = (object, name, value) =>
        defineProperty(object, name,
                       { __proto__: null, value, writable: true, configurable: true, enumerable: name !== "name" });
    const toolError = (message, kind, tool) => {
        const error = new NativeError(message);
        define(error, "name", "ToolError");
        define(error, "kind", kind);
        define(error, "tool", tool);
        return error;
    };
    return {
        __proto__: null,
        compile,
        toolError,
        freeze,
        string: NativeString,
        typeError: (message) => new NativeTypeError(message),
        rangeError: (message) => new NativeRangeError(message),
        plainError: (message) => new NativeError(message),
        Error: NativeError,
        RangeError: NativeRangeError,
        importModule: async (specifier) => {
            throw new NativeError("Unsupported import in exec: " + NativeString(specifier));
        },
    };
})
