package match

import "strings"

// meanings has the words for one thing in several languages, by concept. A word with "-" at an end is also found as a
// part of a longer one: "Weihnachtsmarkt".
//
//nolint:misspell // words of other languages
var meanings = map[string]string{
	"#christmas": "christmas weihnacht- weihnachten weihnachtlich advent- avvento natale natalizio noel navidad " +
		"kerst- jul",
	"#easter":     "easter oster- ostern pasqua paques pascua",
	"#newyear":    "silvester- sylvester capodanno neujahr- newyear",
	"#market":     "market -markt markt- mercato mercatino mercatini marche mercado markedet marknad",
	"#fleamarket": "flea flohmarkt trodelmarkt pulci puces rastro",
	"#concert":    "concert concerts konzert- -konzert concerto concerti concierto concertos konsert koncert",
	"#exhibition": "exhibition exhibitions exhibit ausstellung- -ausstellung mostra mostre exposition exposicion " +
		"tentoonstelling utstallning",
	"#tour":     "tour tours fuhrung- -fuhrung visita visite visites guidata guidate guided guidee rondleiding",
	"#workshop": "workshop workshops werkstatt laboratorio atelier taller",
	"#course":   "course courses kurs- -kurs corso corsi cours curso class lesson seminar seminario seminaire lehrgang",
	"#theatre":  "theatre theater- -theater teatro theatr schauspiel",
	"#opera":    "opera oper opern",
	"#festival": "festival festivals festspiele",
	"#feast":    "feast fest -fest festa fete fiesta feest",
	"#reading":  "reading lesung- -lesung lettura lecture lectura boekpresentatie",
	"#talk": "talk vortrag- -vortrag conferenza conference conferencia lezing lecture diskussion " +
		"podiumsdiskussion discussion debate debatte",
	"#film":    "film films movie screening kino cinema cine filmvorfuhrung",
	"#party":   "party parties disco feier",
	"#meeting": "meeting meetings sitzung- -sitzung treffen riunione reunion vergadering versammlung assemblea",
	"#council": "council gemeinderat- stadtrat- consiglio conseil ayuntamiento",
	"#dance":   "dance tanz- danza danse baile ballo",
	"#choir":   "choir chor- -chor coro chorale choeur koor",
	"#orchestra": "orchestra orchester- -orchester orchestre orquesta sinfonica symphonie- symphony symphonic " +
		"philharmonic philharmonie- philharmoniker",
	"#organ":      "organ orgel- organo orgue",
	"#quartet":    "quartet quartett quartetto quatuor cuarteto",
	"#children":   "children child kids kid kinder- bambini enfants ninos kinderen",
	"#family":     "family families familie familien- famiglia famiglie famille familles",
	"#museum":     "museum- museo musee museen",
	"#church":     "church kirche- -kirche pfarrkirche chiesa eglise iglesia kerk parish",
	"#cathedral":  "cathedral dom dom- duomo cathedrale kathedrale catedral munster minster",
	"#half":       "half halb mezza demi media",
	"#castle":     "castle schloss- burg castello castel chateau castillo kasteel",
	"#town":       "town city stadt- municipal comunale comune communal gemeinde- municipale civica civico civic",
	"#hall":       "townhall rathaus- municipio",
	"#library":    "library bibliothek biblioteca bibliotheque bucherei",
	"#park":       "park parco parc parque",
	"#square":     "square platz- -platz piazza piazzale place plaza",
	"#school":     "school schule scuola ecole escuela",
	"#wine":       "wine wein- vino vin",
	"#beer":       "beer bier- birra biere cerveza",
	"#tasting":    "tasting verkostung- degustation- degustazione degustation cata probe",
	"#summer":     "summer sommer- estate estivo ete verano zomer",
	"#winter":     "winter winter- inverno invernale hiver invierno",
	"#spring":     "spring fruhling- fruhjahr- primavera printemps",
	"#autumn":     "autumn herbst- autunno automne otono",
	"#night":      "night nacht- notte nuit noche",
	"#open":       "openair",
	"#day":        "day tag- giornata journee dia",
	"#music":      "music musik- musica musique",
	"#brass":      "blasmusik- musikkapelle",
	"#book":       "book buch- libro livre",
	"#mass":       "mass messe messa gottesdienst- service worship misa",
	"#run":        "run lauf- -lauf corsa carrera marathon -marathon maratona marato",
	"#race":       "race rennen gara",
	"#hike":       "hike wanderung- escursione randonnee",
	"#puppet":     "puppet puppets puppen- marionetten- burattini marionette marionettes",
	"#magic":      "magic flute zauber- magico flauto",
	"#swan":       "swan schwan- schwanen- cigni cygnes cisne",
	"#lake":       "lake see- -see lago lac",
	"#nutcracker": "nutcracker nussknacker schiaccianoci",
	"#requiem":    "requiem",
	"#world":      "world welt- mondo monde mundo",
	"#music_day":  "musiktag-",
	"#repair":     "repair reparatur-",
	"#clothes":    "clothes clothing kleider- vestiti",
	"#swap":       "swap tausch- scambio",
	"#quiz":       "quiz pubquiz quizabend",
	"#fair":       "fair messe- fiera foire feria",
	"#art":        "art arts kunst- arte",
	"#cooking":    "cooking koch- cucina cuisine cocina",
	"#beginners":  "beginners beginner anfanger- principianti debutants einsteiger-",
	"#advanced":   "advanced fortgeschrittene avanzati",
	"#english":    "english englisch englische englischer inglese anglais",
	"#german":     "german deutsch deutsche tedesco allemand",
	"#italian":    "italian italienisch italiano italiana italien",
	"#french":     "french franzosisch francese francais",
	"#spanish":    "spanish spanisch spagnolo espanol espagnol",
	"#adults":     "adults erwachsene adulti adultes",
	"#seniors":    "seniors senioren- anziani",
	"#women":      "women frauen- donne femmes",
	"#youth":      "youth teens teenager jugend- giovani jeunes",
	"#babies":     "babies baby toddlers krabbel- neonati",
	"#matinee":    "matinee matinata",
	"#rehearsal":  "rehearsal generalprobe prove",
	"#premiere":   "premiere prima",
	"#final":      "final finale",
	"#semifinal":  "semifinal halbfinale semifinale",
	"#aftershow":  "aftershow afterparty aftershowparty",
	"#street": "street st strasse -strasse str -str gasse -gasse via viale rue calle weg -weg road rd avenue ave " +
		"allee -allee corso promenade -promenade",
	"#stadium": "stadium stadion -stadion stadio stade estadio",
	"#sunday":  "sonntags-",
	"#opening": "opening vernissage eroffnung- inaugurazione",
}

// towns have names in several languages.
var towns = []string{
	"bozen bolzano", "meran merano", "brixen bressanone", "bruneck brunico", "sterzing vipiteno", "kaltern caldaro",
	"eppan appiano", "tramin termeno", "klausen chiusa", "lana", "trient trento trent", "rovereto rofreit",
	"rom roma rome", "mailand milano milan", "turin torino", "venedig venezia venice", "florenz firenze florence",
	"neapel napoli naples", "genua genova genoa", "wien vienna vienne", "munchen munich monaco", "koln cologne colonia",
	"zurich zurigo", "genf geneve geneva ginevra", "basel bale basilea", "bern berne berna", "prag praha prague praga",
	"warschau warszawa warsaw varsavia", "krakau krakow cracow cracovia", "brussel bruxelles brussels",
	"antwerpen anvers antwerp", "gent gand ghent", "luttich liege luik", "lissabon lisboa lisbon lisbonne",
	"kopenhagen kobenhavn copenhagen", "goteborg gothenburg", "helsinki helsingfors", "budapest",
	"laibach ljubljana lubiana", "triest trieste", "nizza nice",
	"strassburg strasbourg strasburgo", "mulhausen mulhouse",
	"barcelona barcellona barcelone", "sevilla seville siviglia",
	"saragossa zaragoza", "athen athens atene athina",
}

// generic are words for kinds of events and places, which many events have, with their weight.
var generic = weights(0.4, `#market #concert #exhibition #tour #workshop #course #theatre #opera #festival #feast `+
	`#reading #talk #film #party #meeting
	#music #day #night #summer #winter #spring #autumn #town #open #dance #art #fair #book #family #square #park #hall `+
	`#church #castle #museum
	#library #school #stadium #street show abend evening sera soiree session gala special webinar online jazz rock pop `+
	`folk indie techno kabarett
	cabaret comedy ballett ballet balletto musical tour2026 tournee program programm programma`)

// soleKinds are kinds of events that occur once at a time in a place: "Concert" and "Concert: The Band" are the same.
var soleKinds = setOf("#concert #theatre #opera #festival #feast #market #party #mass")

// qualifiers distinguish events at one time in one place.
var qualifiers = setOf(`#children #beginners #advanced #english #german #italian #french #spanish #adults #seniors ` +
	`#women #youth #babies #rehearsal
	#final #semifinal #aftershow #opening
	online virtual vip setup aufbau abbau men herren damen uomini boys girls junior juniors
	standing seated stehplatz sitzplatz camping parking parkticket shuttle upgrade`)

// ordinals number events of a group.
var ordinals = setOf("one two three first second third eins zwei drei erster zweiter dritter primo secondo terzo ii " +
	"iii iv vi vii viii ix xi")

func weights(w float64, text string) map[string]float64 {
	all := map[string]float64{}
	for word := range setOf(text) {
		all[word] = w
	}
	return all
}

// lexicon finds concepts by whole words, and by the beginnings and endings of longer ones.
var lexicon = func() (l struct {
	whole            map[string]string
	begins, finishes map[string]string
}) {
	l.whole, l.begins, l.finishes = map[string]string{}, map[string]string{}, map[string]string{}
	for _, names := range towns {
		for _, name := range strings.Fields(names) {
			l.whole[name] = "@" + strings.Fields(names)[0]
		}
	}
	for meaning, text := range meanings {
		for _, word := range strings.Fields(text) {
			plain := strings.Trim(word, "-")
			if _, known := l.whole[plain]; !known || meaning < l.whole[plain] {
				l.whole[plain] = meaning
			}
			if strings.HasSuffix(word, "-") {
				l.begins[plain] = meaning
			}
			if strings.HasPrefix(word, "-") {
				l.finishes[plain] = meaning
			}
		}
	}
	return l
}()

// concepts returns the concepts of a word: one or two, or the word itself.
func concepts(word string) []string {
	if meaning := lexicon.whole[word]; meaning != "" {
		return []string{meaning}
	}
	for n := len(word) - 3; n >= 3; n-- {
		begin, finish := word[:n], word[n:]
		meaning := lexicon.begins[begin]
		if meaning == "" {
			continue
		}
		for _, joint := range []string{"", "s", "es", "n", "en", "e"} { // as in compounds
			rest := strings.TrimPrefix(finish, joint)
			if strings.HasPrefix(finish, joint) && lexicon.whole[rest] != "" {
				return []string{meaning, lexicon.whole[rest]}
			}
		}
		if len(begin) >= 4 {
			return []string{meaning, finish}
		}
	}
	for n := 3; n <= len(word)-3; n++ {
		if meaning := lexicon.finishes[word[n:]]; meaning != "" {
			begin := word[:n]
			if known := lexicon.whole[begin]; known != "" {
				begin = known
			}
			return []string{begin, meaning}
		}
	}
	return []string{word}
}
