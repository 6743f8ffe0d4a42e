# SPDX-License-Identifier: MIT
"""Data for RELION, and what became of it.

  relion_client.py map FILE STAR          a volume of a few blobs, and 60 directions to project it along
  relion_client.py noise STAR NAME        the projections of STAR with noise, background 0 and deviation 1: NAME.star
  relion_client.py compare DIR DIR        the refinements of the processor and the GPU
"""
import array
import math
import random
import sys

SIZE = 32
HEADER = 1024
BLOBS = ((0, 0, 0, 4, 1), (5, 2, -3, 2, 1.5), (-4, 5, 3, 2.5, 1), (2, -6, 4, 1.8, 2), (-3, -3, -6, 2, 1.2))


def read(path):
    with open(path, 'rb') as file:
        header, values = file.read(HEADER), array.array('f')
        values.frombytes(file.read())
    return header, values


def write(path, header, values):
    with open(path, 'wb') as file:
        file.write(header)
        file.write(values.tobytes())


STAR = """data_optics

loop_
_rlnOpticsGroup #1
_rlnOpticsGroupName #2
_rlnVoltage #3
_rlnSphericalAberration #4
_rlnImagePixelSize #5
_rlnImageSize #6
_rlnImageDimensionality #7
1 optics1 300.000000 2.700000 4.000000 32 2

data_particles

loop_
_rlnAngleRot #1
_rlnAngleTilt #2
_rlnAnglePsi #3
_rlnOriginX #4
_rlnOriginY #5
_rlnOpticsGroup #6
_rlnImageName #7
"""


def make_map(path, star):
    random.seed(4)
    with open(star, 'w') as file:
        file.write(STAR)
        for i in range(60):
            file.write('%f %f %f 0.000000 0.000000 1 %06d@none.mrcs\n' % (
                random.uniform(0, 360), math.degrees(math.acos(random.uniform(-1, 1))), random.uniform(0, 360), i + 1))
    words = array.array('i', [0] * (HEADER // 4))
    words[0:4] = array.array('i', [SIZE, SIZE, SIZE, 2])
    words[7:10] = array.array('i', [SIZE] * 3)
    words[10:19] = array.array('i', array.array('f', [4 * SIZE] * 3 + [90] * 3).tobytes()) + array.array('i', [1, 2, 3])
    words[52:54] = array.array('i', b'MAP \x44\x41\0\0')
    axis = [i - SIZE / 2 for i in range(SIZE)]
    write(path, words.tobytes(), array.array('f', (
        sum(a * math.exp(-((x - bx) ** 2 + (y - by) ** 2 + (z - bz) ** 2) / (2 * s * s)) for bx, by, bz, s, a in BLOBS)
        for z in axis for y in axis for x in axis)))


def add_noise(star, name):
    random.seed(4)
    with open(star) as file:
        text = file.read()
    stack = star.replace('.star', '.mrcs')
    header, values = read(stack)
    edge = [i for i in range(SIZE * SIZE) if (i % SIZE - SIZE / 2) ** 2 + (i // SIZE - SIZE / 2) ** 2 > 13 ** 2]
    for start in range(0, len(values), SIZE * SIZE):
        image = [v + random.gauss(0, 1) for v in values[start:start + SIZE * SIZE]]
        mean = sum(image[i] for i in edge) / len(edge)
        deviation = math.sqrt(sum((image[i] - mean) ** 2 for i in edge) / len(edge))
        values[start:start + SIZE * SIZE] = array.array('f', [(v - mean) / deviation for v in image])
    write(name + '.mrcs', header, values)
    with open(name + '.star', 'w') as file:
        file.write(text.replace(stack, name + '.mrcs'))


def angles(path):
    with open(path) as file:
        lines = file.read().split('data_particles')[1].split('\n')
    names = [line.split()[0] for line in lines if line.startswith('_rln')]
    columns = [names.index('_rlnAngle' + angle) for angle in ('Rot', 'Tilt', 'Psi')]
    return [[float(line.split()[i]) for i in columns] for line in lines if '.mrcs' in line]


def correlation(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    product = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return product / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def compare(first, second):
    """RELION's GPU code is in single precision with texture filtering: a few of 60 directions differ, more in the second
    iteration, which begins with the first one's map."""
    for iteration, least_same, least_correlation in ((1, 50, 0.99), (2, 40, 0.97)):
        name = '/r_it%03d_' % iteration
        pairs = list(zip(angles(first + name + 'data.star'), angles(second + name + 'data.star')))
        same = sum(all(abs(x - y) < 0.001 for x, y in zip(*pair)) for pair in pairs)
        alike = correlation(read(first + name + 'class001.mrc')[1], read(second + name + 'class001.mrc')[1])
        good = len(pairs) == 60 and same >= least_same and alike >= least_correlation
        print('ok' if good else 'wrong', 'iteration %d: %d of %d directions, maps correlate to %.4f'
              % (iteration, same, len(pairs), alike))


{'map': make_map, 'noise': add_noise, 'compare': compare}[sys.argv[1]](*sys.argv[2:])
