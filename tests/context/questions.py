#!/usr/bin/env python3
"""Questions with known answers (questions.json): by words each has its answer among the first three results, and by
meaning, where a model is installed, at least nine of ten have it there."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mount"))
from mounted import World  # noqa: E402

SET = json.loads(pathlib.Path(__file__).with_name("questions.json").read_text())


class Questions(unittest.TestCase):
    def fill(self, agent):
        folder = agent.root / "documents"
        for path, text in SET["documents"].items():
            file = folder / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for part in sorted(folder.iterdir()):
            agent.warren("fs", "a", "put", part, f"/{part.name}")

    def missed(self, agent, questions, environment):
        missed = []
        for one in questions:
            said = agent.warren("context", "a", "search", "--json", "-n", "3", one["question"], env=environment)
            found = [hit["path"] for hit in json.loads(said)["hits"]]
            if not set(one["answers"]) & set(found):
                missed.append((one["question"], found))
        return missed

    def test_by_words(self):
        with World() as agent:
            self.fill(agent)
            self.assertEqual(self.missed(agent, SET["by_words"], os.environ | {"WARREN_EMBED": "none"}), [])

    def test_by_meaning(self):
        with World() as agent:
            self.fill(agent)
            status = json.loads(agent.warren("context", "a", "status", "--json"))
            self.assertIsNotNone(status["model"], "tools/setup has not installed the model")
            agent.warren("context", "a", "embed")
            questions = SET["by_meaning"] + SET["by_words"]
            missed = self.missed(agent, questions, None)
            self.assertLessEqual(len(missed), len(questions) // 10, missed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
