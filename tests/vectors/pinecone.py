#!/usr/bin/env python3
"""A strict stand-in for Pinecone's data plane, as its documentation (version 2025-04) has it: unknown members, wrong types,
limits and keys are refused. Unlike the service, one dimension per namespace: the first item of each decides.

    pinecone.py PORT KEY
"""
import http.server
import json
import math
import sys
import urllib.parse

SPACES = {}
KEY = ""


class Refused(Exception):
    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


def need(condition, message):
    if not condition:
        raise Refused(message)


def members(body, required, optional=()):
    need(isinstance(body, dict), "the body is not an object")
    for name in body:
        need(name in required or name in optional, f"unknown member {name}")
    for name in required:
        need(name in body, f"missing member {name}")


def check_values(values, space):
    need(isinstance(values, list) and values, "values must be a list of numbers")
    need(all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values),
         "values must be numbers")
    known = next((len(v["values"]) for v in space.values()), len(values))
    need(len(values) == known, f"Vector dimension {len(values)} does not match the dimension of the index {known}")


def check_metadata(metadata):
    need(isinstance(metadata, dict), "metadata must be an object")
    need(len(json.dumps(metadata)) <= 40960, "metadata over 40 KB")
    for key, value in metadata.items():
        need(not key.startswith("$"), "metadata keys do not begin with $")
        is_strings = isinstance(value, list) and all(isinstance(one, str) for one in value)
        need(isinstance(value, (str, int, float, bool)) or is_strings, f"metadata value of {key} has an invalid type")


def holds(test, value, is_there):
    for op, operand in test.items():
        if op in ("$gt", "$gte", "$lt", "$lte"):
            need(isinstance(operand, (int, float)) and not isinstance(operand, bool), f"{op} takes a number")
            if not is_there or isinstance(value, (str, bool)):
                return False
            if not {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}[op]:
                return False
        elif op in ("$in", "$nin"):
            need(isinstance(operand, list) and len({isinstance(one, str) for one in operand}) < 2,
                 f"{op} takes a list of values of one type")
            if (is_there and value in operand) != (op == "$in"):
                return False
        elif op in ("$eq", "$ne"):
            need(isinstance(operand, (str, int, float, bool)), f"{op} takes a plain value")
            if (is_there and value == operand and isinstance(value, bool) == isinstance(operand, bool)) != (op == "$eq"):
                return False
        else:
            raise Refused(f"unknown operator {op}")
    return True


def matches(condition, metadata):
    need(isinstance(condition, dict) and condition, "a filter is an object with members")
    for key, test in condition.items():
        if key in ("$and", "$or"):
            need(isinstance(test, list) and test, f"{key} takes a list")
            if not (all if key == "$and" else any)([matches(one, metadata) for one in test]):
                return False
        else:
            need(isinstance(test, dict) and test, "a condition is an object")
            if not holds(test, metadata.get(key), key in metadata):
                return False
    return True


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


def upsert(body):
    members(body, ["vectors"], ["namespace"])
    space = SPACES.setdefault(body.get("namespace", ""), {})
    need(isinstance(body["vectors"], list) and 1 <= len(body["vectors"]) <= 1000, "1 to 1000 vectors")
    for vector in body["vectors"]:
        members(vector, ["id", "values"], ["metadata", "sparseValues"])
        need(isinstance(vector["id"], str) and 1 <= len(vector["id"]) <= 512 and vector["id"].isascii(), "invalid id")
        check_values(vector["values"], space)
        check_metadata(vector.get("metadata", {}))
    for vector in body["vectors"]:
        space[vector["id"]] = vector
    return {"upsertedCount": len(body["vectors"])}


def query(body):
    members(body, ["topK"], ["namespace", "vector", "id", "filter", "includeMetadata", "includeValues", "sparseVector"])
    need(isinstance(body["topK"], int) and 1 <= body["topK"] <= 10000, "topK must be 1 to 10000")
    need(("vector" in body) != ("id" in body), "either vector or id")
    space = SPACES.get(body.get("namespace", ""), {})
    check_values(body["vector"], space)
    found = [{"id": v["id"], "score": cosine(body["vector"], v["values"]), "metadata": v.get("metadata", {})}
             for v in space.values() if "filter" not in body or matches(body["filter"], v.get("metadata", {}))]
    found.sort(key=lambda match: -match["score"])
    return {"matches": found[:body["topK"]], "namespace": body.get("namespace", ""), "usage": {"readUnits": 5}}


def delete(body):
    members(body, ["ids"], ["namespace", "deleteAll", "filter"])
    need(isinstance(body["ids"], list) and 1 <= len(body["ids"]) <= 1000, "1 to 1000 ids")
    for name in body["ids"]:
        SPACES.get(body.get("namespace", ""), {}).pop(name, None)
    return {}


def stats(body):
    members(body, [], ["filter"])
    counts = {name or "__default__": {"vectorCount": len(space)} for name, space in SPACES.items() if space}
    return {"namespaces": counts, "indexFullness": 0, "metric": "cosine", "vectorType": "dense",
            "totalVectorCount": sum(len(space) for space in SPACES.values())}


def fetch(asked):
    for name in asked:
        need(name in ("ids", "namespace"), f"unknown parameter {name}")
    space = SPACES.get(asked.get("namespace", [""])[0], {})
    return {"vectors": {name: space[name] for name in asked["ids"] if name in space}, "usage": {"readUnits": 1}}


def list_ids(asked):
    for name in asked:
        need(name in ("prefix", "limit", "paginationToken", "namespace"), f"unknown parameter {name}")
    limit = int(asked.get("limit", ["100"])[0])
    need(1 <= limit <= 100, "limit must be 1 to 100")
    prefix = asked.get("prefix", [""])[0]
    after = bytes.fromhex(asked.get("paginationToken", [""])[0]).decode()
    space = SPACES.get(asked.get("namespace", [""])[0], {})
    names = sorted(name for name in space if name.startswith(prefix) and name > after)
    answer = {"vectors": [{"id": name} for name in names[:limit]], "usage": {"readUnits": 1}}
    if len(names) > limit:
        answer["pagination"] = {"next": names[limit - 1].encode().hex()}
    return answer


POSTS = {"/vectors/upsert": upsert, "/query": query, "/vectors/delete": delete, "/describe_index_stats": stats}
GETS = {"/vectors/fetch": fetch, "/vectors/list": list_ids}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def serve(self, work):
        try:
            if self.headers.get("Api-Key") != KEY:
                raise Refused("Invalid API key", 401)
            need(self.headers.get("X-Pinecone-Api-Version") == "2025-04", "the API version is missing")
            self.answer(200, work())
        except Refused as refused:
            self.answer(refused.status, {"code": 3, "message": str(refused), "details": []})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))

        def work():
            need(self.headers.get("Content-Type") == "application/json", "the body must be JSON")
            if self.path not in POSTS:
                raise Refused("no such operation", 404)
            return POSTS[self.path](json.loads(body))
        self.serve(work)

    def do_GET(self):
        def work():
            place = urllib.parse.urlsplit(self.path)
            if place.path not in GETS:
                raise Refused("no such operation", 404)
            return GETS[place.path](urllib.parse.parse_qs(place.query, strict_parsing=True))
        self.serve(work)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may go away
            super().handle_error(request, client_address)


if __name__ == "__main__":
    KEY = sys.argv[2]
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
