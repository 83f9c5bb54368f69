#!/usr/bin/env python3
"""A strict stand-in for the part of Weaviate that the client uses, for ./check; ./check --full runs the suite against the real
server, too. Unknown members, wrong types, names and keys are refused as there.

    weaviate.py PORT KEY
"""
import http.server
import json
import math
import re
import sys
import threading

CLASSES = {}  # name → {"schema": …, "objects": {uuid: object}}
LOCK = threading.Lock()
KEY = ""
CLASS_NAME = re.compile(r"[A-Z][_0-9A-Za-z]{0,254}")
PROPERTY_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,230}")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TOKEN = re.compile(r'\s*([{}()\[\]:,]|"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[_A-Za-z][_0-9A-Za-z]*)')


class Refused(Exception):
    def __init__(self, message, status=422):
        super().__init__(message)
        self.status = status


def need(condition, message, status=422):
    if not condition:
        raise Refused(message, status)


def members(body, required, optional=()):
    need(isinstance(body, dict), "the body is not an object", 400)
    for name in body:
        need(name in required or name in optional, f"unknown member {name}")
    for name in required:
        need(name in body, f"missing member {name}")


def check_property(prop):
    members(prop, ["name", "dataType"], ["tokenization", "indexFilterable", "indexSearchable", "description"])
    need(PROPERTY_NAME.fullmatch(prop["name"]) and prop["name"] not in ("_additional", "_id", "id"),
         f"{prop['name']} is not a valid property name")
    need(prop["dataType"] in (["text"], ["number"]), "unknown data type")
    need(prop["dataType"] == ["text"] or "tokenization" not in prop, "tokenization is for text")
    need(prop.get("tokenization", "field") == "field", "unknown tokenization")
    need(prop["dataType"] == ["text"] or not prop.get("indexSearchable"), "indexSearchable is for text")


def make_class(body):
    members(body, ["class"], ["description", "vectorizer", "vectorIndexType", "vectorIndexConfig", "properties"])
    need(CLASS_NAME.fullmatch(body["class"]), f"{body['class']} is not a valid class name")
    need(body["class"] not in CLASSES, f"class name {body['class']} already exists")
    need(body.get("vectorizer") == "none" and body.get("vectorIndexType") == "hnsw", "unknown vectorizer or index")
    for prop in body.get("properties", []):
        check_property(prop)
    CLASSES[body["class"]] = {"schema": body, "objects": {}}
    return body


def add_property(name, body):
    check_property(body)
    properties = class_of(name)["schema"]["properties"]
    need(all(known["name"].lower() != body["name"].lower() for known in properties),
         f"class {name}: conflict for property {body['name']}: already in use or provided multiple times")
    properties.append(body)
    return body


def class_of(name, status=404):
    need(name in CLASSES, f"class {name} not found", status)
    return CLASSES[name]


def check_object(item):
    members(item, ["class", "id", "vector", "properties"])
    held = class_of(item["class"], 422)
    need(isinstance(item["id"], str) and UUID.fullmatch(item["id"]), "invalid id")
    need(isinstance(item["vector"], list) and item["vector"] and
         all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in item["vector"]),
         "the vector must be a list of numbers")
    types = {prop["name"]: prop["dataType"][0] for prop in held["schema"]["properties"]}
    for name, value in item["properties"].items():
        need(name in types, f"no such prop with name {name}")
        need(isinstance(value, str) if types[name] == "text" else
             isinstance(value, (int, float)) and not isinstance(value, bool), f"invalid {types[name]} property {name}")
    known = next((len(one["vector"]) for one in held["objects"].values()), len(item["vector"]))
    need(len(item["vector"]) == known, f"new node has a vector with length {len(item['vector'])}, others have {known}")
    return held


def put_batch(body):
    members(body, ["objects"], ["fields"])
    results = []
    for item in body["objects"]:
        result = {"status": "SUCCESS"}
        try:
            check_object(item)["objects"][item["id"]] = item
        except Refused as refused:
            result = {"status": "FAILED", "errors": {"error": [{"message": str(refused)}]}}
        results.append({"class": item.get("class"), "id": item.get("id"), "result": result})
    return results


class Query:
    """{Get{CLASS(ARGUMENTS){FIELDS}}} and {Aggregate{CLASS{meta{count}}}}."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            need(found, f"Syntax Error GraphQL request, position {at}")
            self.tokens.append(found[1])
            at = found.end()

    def take(self, expected=None):
        need(self.tokens, "Syntax Error: unexpected end")
        token = self.tokens.pop(0)
        need(expected is None or token == expected, f"Syntax Error: expected {expected}, found {token}")
        return token

    def value(self):
        token = self.take()
        if token == "{":
            fields = {}
            while self.tokens[:1] != ["}"]:
                name = self.take()
                self.take(":")
                fields[name] = self.value()
                if self.tokens[:1] == [","]:
                    self.take()
            self.take("}")
            return fields
        if token == "[":
            values = []
            while self.tokens[:1] != ["]"]:
                values.append(self.value())
                if self.tokens[:1] == [","]:
                    self.take()
            self.take("]")
            return values
        return json.loads(token) if token[0] in '"-0123456789' else token

    def fields(self):
        self.take("{")
        names = []
        while self.tokens[:1] != ["}"]:
            names.append(self.take())
            if self.tokens[:1] == ["{"]:
                names[-1] = (names[-1], self.fields())
        self.take("}")
        return names

    def run(self):
        self.take("{")
        function = self.take()
        self.take("{")
        name = self.take()
        need(name in CLASSES, f'Cannot query field "{name}" on type "{function}ObjectsObj"')
        arguments = {}
        if self.tokens[:1] == ["("]:
            self.tokens[0] = "{"
            self.tokens[self.tokens.index(")")] = "}"
            arguments = self.value()
        fields = self.fields()
        self.take("}")
        self.take("}")
        need(not self.tokens, "Syntax Error: too much")
        if function == "Aggregate":
            need(fields == [("meta", ["count"])] and not arguments, "unknown aggregation")
            return {function: {name: [{"meta": {"count": len(CLASSES[name]["objects"])}}]}}
        need(function == "Get", f"unknown function {function}")
        return {function: {name: get(CLASSES[name], arguments, fields)}}


def cosine_distance(a, b):
    need(len(a) == len(b), f"vector lengths don't match: {len(a)} vs {len(b)}")
    return 1 - sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


def holds(where, types, properties):
    if where.get("operator") in ("And", "Or"):
        members(where, ["operator", "operands"])
        need(len(where["operands"]) > 1, "too few operands")
        return (all if where["operator"] == "And" else any)(holds(one, types, properties) for one in where["operands"])
    members(where, ["path", "operator"], ["valueText", "valueNumber"])
    (name,) = where["path"]
    need(name in types, f"no such prop with name '{name}' found in class")
    kind = "valueText" if types[name] == "text" else "valueNumber"
    need(kind in where, f"data type filter cannot use another type than {types[name]}")
    value, expected = properties.get(name), where[kind]
    if kind == "valueText" and value is not None:
        value = value.strip()  # as the tokenization "field" does
    need(kind != "valueText" or expected.strip(), "invalid search term, only stopwords provided")
    tests = {"Equal": lambda: value == expected, "NotEqual": lambda: value != expected,
             "GreaterThan": lambda: value is not None and value > expected,
             "GreaterThanEqual": lambda: value is not None and value >= expected,
             "LessThan": lambda: value is not None and value < expected,
             "LessThanEqual": lambda: value is not None and value <= expected}
    need(where["operator"] in tests, "unknown operator")
    return tests[where["operator"]]()


def get(held, arguments, fields):
    members(arguments, ["limit"], ["after", "nearVector", "where"])
    need(1 <= arguments["limit"] <= 10000, "query maximum results exceeded")
    types = {prop["name"]: prop["dataType"][0] for prop in held["schema"]["properties"]}
    found = sorted(held["objects"].values(), key=lambda one: one["id"])
    if "after" in arguments:
        need("where" not in arguments and "nearVector" not in arguments, "after cannot be set with where or search")
        found = [one for one in found if one["id"] > arguments["after"]]
    if "where" in arguments:
        found = [one for one in found if holds(arguments["where"], types, one["properties"])]
    distances = {}
    if "nearVector" in arguments:
        members(arguments["nearVector"], ["vector"])
        distances = {one["id"]: cosine_distance(arguments["nearVector"]["vector"], one["vector"]) for one in found}
        found.sort(key=lambda one: distances[one["id"]])
    rows = []
    for one in found[:arguments["limit"]]:
        row = {}
        for field in fields:
            if isinstance(field, tuple):
                need(field[0] == "_additional" and set(field[1]) <= {"id", "distance"}, f"Cannot query field {field[0]}")
                row[field[0]] = {"id": one["id"], "distance": distances.get(one["id"])}
            else:
                need(field in types, f'Cannot query field "{field}"')
                row[field] = one["properties"].get(field)
        rows.append(row)
    return rows


def graphql(body):
    members(body, ["query"], ["variables", "operationName"])
    need(CLASSES, "no graphql provider present, this is most likely because no schema is present. Import a schema first!")
    try:
        return {"data": Query(body["query"]).run()}
    except Refused as refused:
        return {"data": None, "errors": [{"message": str(refused)}]}


def object_of(path):
    _, name, uuid = path.split("/", 2)
    need(UUID.fullmatch(uuid), "invalid id")
    return class_of(name, 400)["objects"], uuid


def serve_get(path):
    if path == "/v1/.well-known/ready":
        return None
    if path.startswith("/v1/schema/"):
        return class_of(path[len("/v1/schema/"):])["schema"]
    found = re.fullmatch(r"/v1/objects\?class=(\w+)&limit=1&include=vector", path)
    if found:
        return {"objects": list(class_of(found[1])["objects"].values())[:1]}
    need(path.startswith("/v1/objects/") and path.endswith("?include=vector"), "no such operation", 404)
    objects, uuid = object_of(path[len("/v1/objects"):-len("?include=vector")])
    need(uuid in objects, "", 404)
    return objects[uuid]


def serve_post(path, body):
    posts = {"/v1/schema": make_class, "/v1/batch/objects": put_batch, "/v1/graphql": graphql}
    found = re.fullmatch(r"/v1/schema/(\w+)/properties", path)
    if found:
        return add_property(found[1], body)
    need(path in posts, "no such operation", 404)
    return posts[path](body)


def serve_delete(path):
    need(path.startswith("/v1/objects/"), "no such operation", 404)
    objects, uuid = object_of(path[len("/v1/objects"):])
    objects.pop(uuid, None)  # succeeds without it, too


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status if data or status != 200 else 204)
        self.send_header("Content-Type", "application/json")
        if data or status != 200:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def serve(self, work):
        try:
            with LOCK:
                need(self.headers.get("Authorization") == f"Bearer {KEY}", "unauthorized: invalid api key", 401)
                value = work()
            self.answer(200, value)
        except Refused as refused:
            self.answer(refused.status, {"error": [{"message": str(refused)}]})

    def do_GET(self):
        self.serve(lambda: serve_get(self.path))

    def do_DELETE(self):
        self.serve(lambda: serve_delete(self.path))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))

        def work():
            need(self.headers.get("Content-Type") == "application/json", "the body must be JSON", 415)
            return serve_post(self.path, json.loads(body))
        self.serve(work)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may go away
            super().handle_error(request, client_address)


if __name__ == "__main__":
    KEY = sys.argv[2]
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
