package posts

import "strings"

// lexicon has what is searched for about one subject: phrases with a space where a word begins or ends.
type lexicon []string

// phrases reads phrases in small letters and without punctuation. A phrase matches the beginning of a word, "apply"
// also in "applying"; one with a stroke at its end matches a whole word; one with a tilde at its beginning matches
// within words.
func phrases(lists ...string) lexicon {
	var all lexicon
	for _, list := range lists {
		for phrase := range strings.SplitSeq(list, ",") {
			phrase = strings.Join(strings.Fields(phrase), " ")
			if phrase == "" {
				continue
			}
			within, inWords := strings.CutPrefix(phrase, "~")
			needle, whole := strings.CutSuffix(within, "|")
			if !inWords {
				needle = " " + needle
			}
			if whole {
				needle += " "
			}
			all = append(all, needle)
		}
	}
	return all
}

// find returns the phrase of the lexicon in a text of [identity.Words] between two spaces, "" if it has none.
func (l lexicon) find(words string) string {
	var begin uint64 // how the words begin: most phrases begin otherwise
	for i := range len(words) - len("  ") {
		if words[i] == ' ' {
			begin |= beginning(words[i:])
		}
	}
	for _, needle := range l {
		if (needle[0] != ' ' || begin&beginning(needle) != 0) && strings.Contains(words, needle) {
			return strings.TrimSpace(needle)
		}
	}
	return ""
}

// beginning returns a bit for the beginning of a word, after its space.
func beginning(word string) uint64 { return 1 << ((5*word[1] + word[2]) % 64) }

// subject is a subject other than an event that a sentence with a date may have.
type subject struct {
	why string
	// weight is subtracted from the signs for an event.
	weight int
	words  lexicon
}

//nolint:misspell // words of other languages
var otherSubjects = []subject{
	{"it is a deadline", 5, phrases(
		`deadline, apply by, apply through, applications, submissions, submit your, closing date, entries close,
			closes on, close on, closes at, last day to, last posting, last chance to, last orders, expir, ends on,
			term ends, terms end|, end of term,
			discount ends, valid until, are due, is due, due on, due by, order by, order your, pre order, preorder,
			rsvp by, register by, register before, early bird, vote|, votes|, voting, extended to, best before, use by,
			must be received, received by, sleeps until, objections, extended until, extended to, polling, to vote`,
		`bewerbungsschluss, bewerbungsfrist, bewerbungen, bewerbt euch, bewirb, ~schluss|, ~schluss für,
			~schluss ist, ~frist|, verlängert bis, anmeldeschluss, anmeldefrist, anmeldung bis, anmeldung zum,
			anmelden bis, frist, stichtag, gültig, bestellschluss, bestellungen bis, abgegeben werden, abgabe, einreich`,
		`candidature, inscription en ligne du, date limite, prolong, inscription sur les, valable,
			inscriptions se terminent, inscriptions jusqu, clôture des inscriptions, clôture des, dossier à, à régler,
			à rendre, dernier délai, s inscrire avant`,
		`plazo, matrícula abierta, fecha límite, prorrog, se presenta antes, declaración, último día para, se cierra,
			cierre de inscrip, inscripciones hasta, matrícula, convocatoria, pedidos`,
		`scadenza, prorogat, rata|, pagamento, iscrizioni chiudono, chiusura iscrizioni, iscrizioni entro, bando,
			ordini entro, termine ultimo`,
		`inschrijven kan, inschrijven tot, aanmelden kan, aanmelden voor, uiterlijk, tilmeldingsfrist,
			ansøgningsfrist, tilmelding senest, senest|, ansökningsdag, ansökan senast, senast|, påmeldingsfrist, prazo,
			inscrições até, inscrições terminam, candidaturas, 締切, 応募`)},
	{"it is a sale or an offer", 3, phrases(
		`sale starts, sale ends, sales start, big sale, black friday, cyber monday, winter sale, summer sale,
			flash sale, discount, off all, off any, off your, off everything, promo, voucher, special offer, with code,
			coupon, for the price of, deal|, deals|, bogof`,
		`rabatt, angebot, aktionscode, gutschein, sonderpreis, auf alles, ausverkauf|, schlussverkauf, reduziert,
			3 für 2, gratis versand`,
		`soldes, promotion, remise, réduction, code promo, offre spéciale, sur toute la boutique`,
		`rebajas, descuento, oferta, código, en toda la tienda`,
		`saldi, sconto, offerta, su tutto`,
		`tilbud, rabat, korting, aanbieding, uitverkoop, erbjudande, rea|, desconto, promoção, saldos`)},
	{"tickets go on sale then", 5, phrases(
		`on sale, tickets available from, booking opens, bookings open, tickets drop, presale, pre sale,
			general sale, ballot opens, registration opens, enrolment opens, season tickets, bookable, available from`,
		`vorverkauf startet, vorverkauf beginnt, vorverkauf ab, vvk start, vvk startet, vorverkaufsstart,
			tickets ab dem, karten ab dem, anmeldung öffnet, anmeldestart, anmeldung ab|`,
		`ouverture de la billetterie, ouverture de billetterie, ouverture des réservations, inscriptions ouvr,
			inscriptions aux, ouvrent le, réservations ouvr, mise en vente, en vente à partir, billetterie ouvre`,
		`a la venta a partir, a la venta el, a la venta desde, salen a la venta, venta de entradas,
			apertura de inscrip, inscripciones abr, abren el`,
		`in vendita, prevendita dal, prevendite dal, vendita dei biglietti, apertura iscrizioni, iscrizioni apr,
			aprono le iscrizioni`,
		`kaartverkoop, voorverkoop start, billetsalget, billetter til salg, biljettsläpp, bilhetes à venda`)},
	{"something comes out then", 3, phrases(
		`is out on, out on, out now, out everywhere, will be released, release date, drops on, drops|, new single,
			our new ep, our new album, new album is, available from, launches on, hits stores, in stores,
			streaming from, premieres on netflix, new episode, episode|, new video, podcast, on bbc, on channel,
			on netflix, on tv, back in stock, restock, ships`,
		`erscheint, ab dem im handel, neue single, neues album, ab sofort, jetzt erhältlich, veröffentlicht,
			neue folge, folge|, im tv, auf arte, im ersten, im zdf, im radio läuft`,
		`sort le, sortira, en librairie, nouvel album sort, parution, épisode, à la télé, sur arte, sur france|`,
		`sale el, salen el, a la luz, nuevo disco sale, estreno en plataformas, episodio, en la tele, en la 1|,
			en antena 3, en telecinco, nuestra entrevista, en netflix`,
		`esce il, uscirà, nuovo singolo, nuovo album, in uscita, puntata, in tv, su rai`,
		`verschijnt, udkommer, släpps, nu ute, lança o novo, novo álbum`)},
	{"something is closed or changes then", 5, phrases(
		`closed, closure, will close, be shut, we re shut, maintenance, roadworks, resurfacing, timetable, moved to,
			brought forward, opening hours, opening times, new hours, holiday hours, bank holiday hours,
			back on tuesday, power cut, water off, bin collection, recycling collection, bin day, strike|,
			industrial action, clocks go, clocks change, term opening, open daily, daily from, daily 1, suspended,
			served, serving, menu, special is, unavailable, stocktak, we are open, we re open, is open from,
			open as usual, reopen, bank holiday, public holiday, school holiday, school term, half term, term starts,
			exam|, exams|, results day, election, polling day, will begin, work begins, works start, construction,
			takes effect, comes into force, applies from, in force, warning|, delays|, cancelled trains, moving to,
			we re moving, refund`,
		`geschlossen, betriebsferien, betriebsurlaub, sperrung, gesperrt, öffnungszeiten, bauarbeiten, umleitung,
			fahrplan, müll, abholung der, uhren werden, uhren auf, sommerzeit, winterzeit, schließ, ruhetag, zu sehen,
			urlaub, täglich|, geöffnet, nicht erreichbar, fährt die, linie|, mittagstisch, speisekarte, inventur,
			haben wir offen, haben wir auf|, wieder da|, wieder für euch da, wieder für sie da, ferien|, ~ferien|,
			schulbeginn, feiertag|, wahltag, briefwahl, warntag, sirenen, tritt in kraft, in kraft, warnung, unwetter,
			verspätung, umzug in, liegt ab, bleibt, erreichbar|, geleert, vorverlegt, saison startet, freibadsaison,
			zeugen`,
		`fermé, fermeture, ferme ses, travaux, circulation, horaires, encombrants, heure d été, heure d hiver,
			collecte des, coupure, grève, ouvert du, ouvert de, ouvert tous, sommes ouverts, serons ouverts,
			restons ouverts, rouvre, vacances scolaires, vacances de, jour férié, rentrée, élection, entre en vigueur,
			en vigueur, vigilance, perturbation, examens, inventaire, menu|, plat du jour`,
		`cerrado, cerramos, cierra por, cerrada, corte de, obras, horario, cambio de hora, recogida de, huelga,
			abierto de, abrimos de, abrimos el, abrimos a, estamos abiertos, abiertos el, reabrimos, vacaciones,
			elecciones, entra en vigor, alerta, aviso por, exámenes, menú, festivo`,
		`chiuso, chiusi, chiusa, chiusura, chiudiamo, orari, lavori, raccolta, ritiro, sospes, ora legale,
			ora solare, sciopero, aperto da, aperti da, anticipato, posticipato, siamo aperti, saremo aperti,
			restiamo aperti, riapr, vacanze, elezioni, entra in vigore, allerta, esami, menù, menu`,
		`gesloten, dicht van, openingstijden, werkzaamheden, lukket, holder lukket, åbningstider, stängt, öppettider,
			bereikbaar, dagelijks, dagligen, dagligt, diariamente, encerra, encerrad, fechado, fechamos, horário, 休業,
			定休, 休館`)},
	{"it looks back", 4, phrases(
		`thanks to, thank you, was|, were|, raised, last night, yesterday, last week, last year, last saturday,
			last sunday, last friday, years ago, a year ago, throwback, tbt|, on this day, recap|, look back,
			looking back, photos from, pictures from, highlights from, born on, was born, born in, founded on,
			that s a wrap, what a night, congratulations, remember when, passed away, rest in peace, rip|, results from,
			results of, result|, we had, we ve had, joined us, announced this, lost our, commemorat`,
		`danke an, danke für, dankeschön, war|, waren, wurde|, wurden, gegründet, gestern, letzten, letzte woche,
			vergangenen, rückblick, tbt, wisst ihr noch, vor einem jahr, geboren, seit dem, seit|, haben mit,
			in bildern, vielen dank, glückwünsche, haben wir, ergebnis, wahnsinn, demonstriert, voller erfolg`,
		`merci à, merci pour, était, étaient, il y a un an, il y a, hier|, dernier|, dernière, souvenir, retour sur,
			retour en images, photos du, photos de, né le, née le, est né, depuis le, inaugurions, bravo, on a gagné,
			avons, sortait, résultat, inaugurions`,
		`gracias a, gracias por, recogid, hemos, resultado, tal día como hoy, gracias compañer, fue|, fueron,
			hace un año, hace, ayer|, anoche, pasado|, recuerdo, así fue, fotos de, nació, fundad, llenamos,
			abrimos nuestras`,
		`grazie a, grazie per, grazie di, abbiamo, siete grandi, risultat, auguri, era|, erano, eravamo, un anno fa,
			anni fa, ieri|, scorso|, scorsa|, ricordo, foto di, foto del, le foto, nacque, nasceva, nato il, fondat,
			dal 19`,
		`bedankt, was een, gisteren, afgelopen, terugblik, geboren op, sinds, tak til, tak for, i går, i lørdags,
			i søndags, født, tack till, igår, i lördags, född, obrigad, foi uma, ontem, nasceu`)},
	{"it is a birthday", 5, phrases(
		`happy birthday, birthday to, birthday of our, turns, birthday girl, birthday boy, wedding anniversary`,
		`alles gute zum, geburtstag|, geburtstag von, wird unser, jahre alt`,
		`joyeux anniversaire, bon anniversaire, fête ses, ans le`,
		`feliz cumple, cumple|, cumpleaños`,
		`buon compleanno, compie, compleanno`,
		`fødselsdag, tillykke, födelsedag, grattis, verjaardag, gefeliciteerd, feliz aniversário, parabéns`)},
	{"it is about work", 5, phrases(
		`hiring, vacanc, start date, your cv, join our team, job|, jobs|, internship`,
		`wir suchen, m w d, stelle als, ausbildungsplatz, verstärkung`,
		`recrut, prise de poste, cdi|, cdd|, votre cv, offre d emploi`,
		`buscamos, incorporación, tu cv|, empleo, vacante`,
		`cerchiamo, inviare cv, tirocinio, assum`,
		`vacature, solliciteer, vi søger, ansættelse, vi söker, vaga de, recrutamos`)},
	{"it is a prize draw", 4, phrases(
		`giveaway, prize draw, competition closes, enter to win, win a, win two, to win|, draw takes place,
			winner announced, winners announced`,
		`gewinnspiel, verlosung, verlosen, gewinnt, teilnahmeschluss`,
		`jeu concours, tirage au sort, à gagner, concours photo`,
		`sorteo, sorteamos, gana dos, gana un`,
		`concorso, vinci, estrazione, in palio`,
		`winactie, konkurrence, trække lod, tävling om, passatempo, sorteio`)},
	{"it is about goods or payments", 4, phrases(
		`delivery, deliver in, shipping, collection 2, recall, batch, fees, payment, payable, tax bills, council tax,
			rent|, membership fee, invoice, flu jab, appointment`,
		`lieferung, geliefert, kommen garantiert, rückruf, charge|, haltbar, beitrag, beiträge, steuer, rechnung,
			abbuch`,
		`livraison, livré, commande, cotisation, impôt, facture, rappel produit, rappel de produit`,
		`envío, entrega, llegan a tiempo, cuota, impuesto, factura`,
		`consegna, ordini, spedizione, quota, imposta, bolletta, fattura`,
		`levering, bestelling, contributie, kontingent, leverans, avgift, entrega, encomenda, quota`)},
}

// otherTimes are about hours of no event.
var otherTimes = phrases(
	`opening hours, opening times, on sale, open daily, open every day, box office open, office hours,
			bookings from, call us, phone`,
	`öffnungszeiten, geöffnet, vorverkauf, telefonisch, kasse`,
	`horaires, ouvert du, ouvert de, billetterie`,
	`horario, abierto de, taquilla de`,
	`orari, aperto da, aperti da, biglietteria`,
	`openingstijden, åbningstider, öppettider`)

// openEnded are words before the day from which, until which or before which something holds.
var (
	sinceWords = phrases(
		`from|, from the|, starting|, starting from|, as of|, as from|, effective|, since|, ab|, ab dem|,
			ab sofort und|, seit|, seit dem|, zum|, à partir du|, à compter du|, dès le|, depuis le|, depuis|,
			a partir del|, a partir de|, desde el|, desde|, dal|, dall|, a partire dal|, vanaf|, sinds|, fra|, fra den|,
			siden|, från|, från och med|, sedan|, a partir de|`)
	untilWords = phrases(
		`until|, till|, til|, by|, by the|, before|, through|, to|, ends|, expires|, bis|, bis zum|,
			bis einschließlich|, vor dem|, spätestens|, spätestens am|, noch bis|, noch bis zum|, jusqu au|, jusqu à|,
			avant le|, d ici le|, hasta el|, hasta|, antes del|, antes de|, fino al|, fino a|, sino al|, entro il|,
			entro|, entro e non oltre il|, prima del|, tot|, tot en met|, t m|, voor|, uiterlijk|, til og med|, indtil|,
			senest|, inden|, till och med|, senast|, até|, até ao|, até dia|, antes de|`)
)

// eventWords are names of events and activities.
var eventWords = phrases(
	`concert, gig|, gigs|, live music, live band, in conversation, marathon, festival, fair|, fayre, market|,
			markets|, craft fair, party, parties, ball|, quiz, workshop, class|, classes|, course|, talk|, talks|,
			lecture, webinar, seminar, guided walk, walk|, hike|, run|, race|, 5k|, 10k|, half marathon, match|,
			kick off, exhibition, private view, opening night, reading|, book launch, launch party, author event,
			film night, screening, movie night, comedy, stand up, open mic, slam|, jam session, session|, karaoke, dj|,
			disco, rave|, club night, dance|, dancing|, opera, ballet, choir, chorus, carols, midnight mass, mass|,
			evensong, service|, brunch, supper, dinner|, tasting, agm|, meeting, assembly|, meetup, meet up, conference,
			summit, hackathon, jumble sale, car boot, bake sale, book sale, plant sale, yard sale, bazaar, parade,
			carnival, firework, bonfire, picnic, retreat, rehearsal, recital, matinee, night|, coffee morning,
			breakfast, hustings, pressing, drop in, evening|, storytime, swap|, fete|, fête|, ceilidh, café|, cafe|,
			tour|, play|, plays|, performed by, performance, fundraiser, gala|, convention, cabaret, burlesque,
			weekend|, gathering, vigil|, rally|, protest|, demo|, tournament, championship, cup final, fun day, panto|,
			training day, family day, open day, open house, wonderland, yoga, drawing`,
	`konzert, ~konzert, ~fest|, ~festival, ~markt|, ~abend|, ~nacht|, ~party|, ~tag der offenen, ~führung,
			~lesung, ~vortrag, ~kurs|, ~seminar, ~feier|, ~lauf|, ~turnier, ~spiel gegen, ~tanz, ~treff, ~tisch|,
			~versammlung, ~ausstellung, vernissage, eröffnung, premiere, ~theater, ~oper|, ~kino, ~flohmarkt, ~basar,
			~börse, ~tausch, ~brunch, ~dinner, ~slam|, ~session|, gottesdienst, ~messe|, ~andacht, ~wanderung, ~umzug,
			~feuerwerk, ~demo|, ~kundgebung, ~tagung, ~kongress, ~probe|, ~ball|, ~gala, einladung, tag der, matinee,
			~stammtisch, impro`,
	`concert, spectacle, soirée, festival, fête|, fete|, marché, foire, brocante, vide grenier, atelier, stage|,
			cours|, conférence, débat, rencontre, dédicace, lecture|, projection, ciné, théâtre, opéra, bal|, danse,
			loto, tournoi, match, randonnée, balade, visite, exposition, portes ouvertes, réunion, assemblée, salon,
			messe, veillée, carnaval, défilé, feu d artifice, réveillon, don du sang, stand up, nuit|, apéro,
			dégustation, repas|, brunch, tango, salsa|, jeux|, course|, midi musical, malade imaginaire, café philo`,
	`concierto, fiesta, feria, mercad, taller, curso|, charla, conferencia, presentación, recital, teatro,
			títeres, monólogos, cine|, cineclub, proyección, exposición, inauguración, baile, milonga, verbena, carrera,
			ruta|, excursión, visita guiada, partido, torneo, asamblea, reunión, jornada, encuentro, noche de, hoguera,
			procesión, misa, desfile, carnaval, fuegos, cata|, degustación, gala|, boleros, día del, cremà, romería,
			flamenco, vermut, conversatorio`,
	`concerto, festa|, sagra, fiera, mercat, laborator, corso|, conferenza, presentazione, serata, spettacolo,
			teatro, burattini, cineforum, proiezione, mostra|, inaugurazione, ballo, passeggiata, corsa|, gara|,
			partita, torneo, assemblea, riunione, incontro, visita guidata, messa|, processione, sfilata, fuochi,
			degustazione, cena|, cenone, marcia, presepi, aperitivo, matinée, castagnata, cinema, concorso ippico`,
	`~koncert, ~konsert, ~concert, ~marked|, ~marknad, ~markt|, foredrag, fællessang, ~fest|, ~avond|, ~atelier,
			lichtfestival, ~quiz|, loppis, ~mässa, ~aften|, roda de, lançamento, palestra, oficina, concerto, feira|,
			festa|, exposição, teatro, espetáculo, baile, peça, ~forestilling, ~föreställning, ~utställning,
			~udstilling, workshop, ~løb|, ~lopp|, rondleiding, voorstelling, optreden`,
	`jazz, blues|, folk|, swing|, techno|, soul|, halloween, hallowe, christmas market, easter egg, valentine,
			mardi gras, ~karneval, ~fasching, ~fastnacht, ~festspiel, ~podium, ~café|, wreath, crafting, making|,
			craft|, tea dance, coffee, treasure hunt, scavenger, easter, lantern, procession, circus, zirkus, cirque,
			circo, chasse au, caccia al, busca del, thé dansant, jam|, impro, magic show, magie, magia, aperitivo,
			apéro, vermouth, salón|, salon|, fiestas|, firma de libros, club de lectura, letture, lecture, leitura,
			~voorstelling, spielenachmittag, ~nachmittag, ~frühstück|, ~picknick, ~rundgang, ~abschluss, auftakt,
			~einweihung, jubiläum, ~jubiläum, spaces left on, places left`,
	`コンサート, ~ナイト, ライブ, ~祭|, 開演, 公演, 展覧会, イベント, 上映`)

// venueWords are names of places of events.
var venueWords = phrases(
	`theatre, theater, hall|, town hall, village hall, club|, museum, gallery, library, church|, cathedral,
			chapel, pub|, bar|, café, arena, stadium, park|, brewery, arts centre, community centre, bandstand, bookshop`,
	`~halle|, saal|, ~saal|, ~haus|, kirche, ~kirche|, ~platz|, ~theater|, bühne, ~bühne|, museum, galerie,
			bücherei, bibliothek, keller, ~zentrum|, ~garten|, ~schule|`,
	`salle, église, place|, médiathèque, bibliothèque, théâtre, musée, galerie, château, parc|, gymnase, mairie,
			centre culturel`,
	`sala|, plaza, teatro, biblioteca, iglesia, museo, centro cultural, casa de la cultura, parque|, librería,
			ateneo, auditorio`,
	`sala|, piazza, teatro, biblioteca, chiesa, museo, centro storico, circolo, parco, palazzo, castello`,
	`kirke, ~kirken|, bibliotek, kulturhus, ~huset|, kerk, ~gården|, igreja, praça, auditório, 会館, ホール`)

// listWords are headings of lists of events.
var listWords = phrases(
	`event|, events|, calendar, what s on, what s happening, programme|, agenda|, upcoming, meeting, shows|, gigs|,
			concerts|, tour dates, diary, performances, screenings, classes|, workshops`,
	`veranstaltung, termine|, kalender|, spielplan, programm|, konzerte|, führungen`,
	`événement, évènement, programmation, calendrier, manifestations, sorties|, spectacles|, concerts`,
	`eventos|, agenda|, calendario|, programación, actividades|, conciertos, eventi|, programma|, appuntamenti,
			evenement, kalender|, arrangement, begivenheder, evenemang, eventos|, agenda cultural, イベント, 催し`)

// inviting are words that invite people, or are about prices.
var inviting = phrases(
	`join us, save the date, mark your calendar, come along, see you there, doors, free entry, free admission,
			tickets, ticket, rsvp, book now, booking, all welcome, drop in, sign up, register, registration, bring a,
			returns, is back, just announced, live|, featuring, admission, meet at, on the door`,
	`eintritt, karten, einlass, beginn|, tickets, vvk, ak|, laden, herzlich, kommt|, vormerken, reservier,
			anmeldung, wir freuen uns auf, abendkasse, save the date, tisch reservieren, findet statt, präsentiert`,
	`entrée libre, entrée gratuite, gratuit, billet, réserv, on vous attend, venez, rendez vous, rdv,
			sur inscription, ouvert à tous, participation libre`,
	`entrada, taquilla, te esperamos, ven a, ven y, aforo, gratuit, reserva, inscrip, celebra con nosotros,
			no te lo pierdas, salida`,
	`ingresso, biglietti, prevendite, vi aspettiamo, prenot, iscrizioni, gratuito, ritrovo, partenza, non mancate`,
	`gratis, adgang, toegang, billet, biljett, entrada livre, kaarten, kom|, välkom, velkommen, welkom, 入場, 会場`)

// Words about the fate of an event in the sentence of its date.
//
//nolint:misspell // words of other languages
var (
	cancelledWords = phrases(
		`cancelled|, canceled|, called off|, abgesagt|, fällt aus|, fällt leider aus|, entfällt|, annulé|, annulée|,
			cancelado|, cancelada|, suspendido|, suspendida|, annullato|, annullata|, cancellato|, aflyst|, afgelast|,
			geannuleerd|, inställt|, inställd|`)
	postponedWords = phrases(
		`postponed|, rescheduled|, moved to|, new date|, will now take place, verschoben|, verlegt auf|,
			neuer termin|, reporté|, reportée|, nouvelle date|, aplazado|, aplazada|, pospuesto|, nueva fecha|,
			rinviato|, rinviata|, rimandato|, nuova data|, uitgesteld|, udsat|, uppskjutet|, adiado|`)
)

// dateMarks are signs and words before the date of an event.
var dateMarks = wordSet("📅 🗓 📆 when wann quand cuándo cuando date datum fecha data wanneer hvornår når")
