"""What the programs of the frameworks share: one task, with a file, a question and a file that comes back."""

from pathlib import Path

from check import BASE, WORKSPACE, must, same

CARD = f'{BASE}/.well-known/agent-card.json'
PROMPT = 'Have the notes copied.'
NOTES = b'remember the milk\n'


COPY = Path(WORKSPACE) / 'copied.txt'


def asks(said, is_copied):
    """Checks that a text is the question about the copy, and that none was made before."""
    must('copied.txt' in said and 'Allow it?' in said, f'the question: {said!r}')
    must(not is_copied, 'the copy is there already')


def copied(said):
    """Checks that the copy is made, and that a text says so."""
    must('It is copied.' in said, f'the answer: {said!r}')
    same(COPY.read_bytes(), NOTES, 'the copy')
